"""What is in the models that are open: their tree, and a panel each for what they hold."""
