"""What is said about models, weights, errors and plans: labels, order, wording, units. Knows no Qt.

The window, the command line and the report render what is said here; none words or computes a
figure by itself. Texts are English.
"""
