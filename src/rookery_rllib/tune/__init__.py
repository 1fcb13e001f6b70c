"""Ray Tune's names of 2021 on Rookery's own runner of many trainings (`rookery.tune`)."""
