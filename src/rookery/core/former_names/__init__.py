"""Tables of the names that modules, classes and functions had in older versions; `core.moved` reads them."""
