"""What is slow is read from a file, and the file from a measurement."""

from tests.support import slow_tests
from tests.support.notebook_rules import ROOT


def test_a_measurement_is_written_and_read():
    tests = {"a.py::one": 1.0, "a.py::two": 0.9, "b.py::three": 5.0, "c.py::four": 20.0}
    text = slow_tests.written(tests, {"a.py": 0.1, "b.py": 2.0, "c.py": 1.9})
    assert slow_tests.read_slow(text) == {"a.py::one", "b.py", "c.py::four"}
    listed = [line for line in text.splitlines() if not line.startswith("#")]
    assert listed == ["   20.0  c.py::four", "    2.0  b.py", "    1.0  a.py::one"]


def test_what_the_file_names_is_marked(request):
    listed = slow_tests.read_slow(slow_tests.FILE.read_text("utf-8"))
    assert listed, "make measure writes it"
    for name in listed:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists(), f"{name}: run make measure"
        if function:
            assert f"def {function}(" in (ROOT / path).read_text("utf-8"), name
    for item in request.session.items:
        name = slow_tests.function_of(item.nodeid)
        slow = name in listed or name.split("::")[0] in listed
        assert slow == bool(item.get_closest_marker("slow")), name


def test_the_parameters_of_a_test_belong_together():
    assert slow_tests.function_of("a.py::test_b[x::y[3]]") == "a.py::test_b"
