"""The built site in headless Chromium: searches find their page first, nothing comes from another host, small screens.

It needs ``make site``, Chromium, node, and playwright-core in the folder that NODE_PATH names; else it is skipped.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pages import ROOT

SITE = ROOT / "build" / "site" / "site"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
PLAYWRIGHT = Path(os.environ.get("NODE_PATH", "none")) / "playwright-core"
READY = (SITE / "index.html").exists() and Path(CHROMIUM).exists() and shutil.which("node") and PLAYWRIGHT.exists()


@pytest.mark.slow
@pytest.mark.skipif(not READY, reason="needs make site, Chromium, node and playwright-core")
def test_what_people_search_for_is_found_first_and_pages_fit_small_screens():
    script = ROOT / "scripts" / "website" / "browser.mjs"
    done = subprocess.run(["node", script, SITE], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
