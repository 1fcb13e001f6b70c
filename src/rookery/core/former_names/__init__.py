"""Tables of the former names of modules, classes and functions; `core.moved` reads them."""
