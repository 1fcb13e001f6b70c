"""Other systems' names: their scripts and files run here, on ordinary Rookery objects."""
