"""What the hardening runs did, as counts at the end."""


def pytest_terminal_summary(terminalreporter):
    """Lines that tests gave with record_property("hard", line)."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    lines = [line for report in reports for name, line in report.user_properties if name == "hard"]
    if lines:
        terminalreporter.section("hardening")
        for line in lines:
            terminalreporter.write_line(line)
