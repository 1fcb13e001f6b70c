"""Ray Tune's names of 2021 on Rookery's own trial runner (`rookery.tune`)."""
