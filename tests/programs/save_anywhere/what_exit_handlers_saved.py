"""What exit_handlers.py has saved."""

from files import check_files, check_steps

for name in ("10", "20", "30"):
    check_files(name)
for name in ("20", "30", "40", "41"):
    check_steps(name)
