"""What the frozen program runs first."""

from __future__ import annotations

import sys

from viewer.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
