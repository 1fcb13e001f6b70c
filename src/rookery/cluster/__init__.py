"""Other machines: the connection to Ray, and what is kept in processes there."""
