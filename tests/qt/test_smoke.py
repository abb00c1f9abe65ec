def test_smoke(window):
    assert window.current
def test_hostile(make_window, hostile_path):
    w = make_window(hostile_path)
    print(w.current.model.problems)
