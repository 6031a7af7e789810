"""Questions from inside the program that is captured: from records and rows to what they came from and went into."""
