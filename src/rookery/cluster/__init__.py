"""Beyond one process: the connection to Ray, what is kept in processes there, and learners that agree."""
