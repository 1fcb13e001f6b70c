"""Unity players without Unity, for tests: see docs/how-to/test-unity.md."""
