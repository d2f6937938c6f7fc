"""`python -m loopguard_lg` is `loopguard`."""

from loopguard_lg.cli import main

if __name__ == "__main__":
    main()
