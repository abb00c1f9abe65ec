"""What several tests share: writers of files, right ones and wrong ones."""
