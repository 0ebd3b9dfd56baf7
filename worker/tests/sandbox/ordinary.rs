//! Tests of features that ordinary code expects.

use super::*;

#[tokio::test]
async fn python_finds_its_library_a_scratch_folder_and_an_event_loop() {
    let sandbox = sandbox(&CodeConfig::default());
    for (code, wanted) in [
        ("def main(): return {'r': json.dumps([1])}", json!({"r": "[1]"})),
        ("import sys\ndef main(): return {'r': [__name__, sys.argv]}", json!({"r": ["__main__", [""]]})),
        (
            "import numbers, fractions, xml.etree.ElementTree as e, sqlite3, zoneinfo, asyncio, concurrent.futures, logging\n\
             def main(): return {'r': e.fromstring('<a>x</a>').text}",
            json!({"r": "x"}),
        ),
        (
            "import asyncio\nasync def two():\n    await asyncio.sleep(0.01)\n    return 2\n\
             def main(): return {'r': asyncio.run(two())}",
            json!({"r": 2}),
        ),
        (
            "import os, tempfile\ndef main():\n    open('f', 'w').write('x')\n    os.rename('f', 'g')\n\
             \x20   with tempfile.NamedTemporaryFile() as t:\n        t.write(b'y'); t.flush()\n\
             \x20       return {'r': open('g').read() + open(t.name).read() + str(len(os.listdir()))}",
            json!({"r": "xy2"}),
        ),
        ("import os\ndef main(): return {'r': os.listdir('.')}", json!({"r": []})),
        (
            "import datetime, decimal, hashlib\ndef main(): return {'r': hashlib.md5(b'x').hexdigest()[:4], 'd': datetime.datetime.fromtimestamp(0).hour}",
            json!({"r": "9dd4", "d": 0}),
        ),
        (
            "def main():\n    print('noise')\n    import sys; print('noise', file=sys.stderr)\n    return {'r': 'é😀'}",
            json!({"r": "é😀"}),
        ),
        ("def main(): return {'r': '{{inputs}}'}", json!({"r": "e30="})),
        ("import signal\ndef main():\n    signal.alarm(10)\n    return {'r': 1}", json!({"r": 1})),
    ] {
        assert_eq!(python(&sandbox, code).await, Ok(wanted), "{code}");
    }
}

#[tokio::test]
async fn inputs_are_keyword_arguments_whatever_is_in_them() {
    let sandbox = sandbox(&CodeConfig::default());
    let inputs = json!({"a": "'\"\\\n{{inputs}}<<RESULT>>é😀", "b": [1.5, null, {"k": true}], "текст": "x"});
    let code = "def main(**all): return all";
    assert_eq!(returns(&sandbox, CodeLanguage::Python, code, inputs.clone()).await, Ok(inputs.clone()));
    let code = "def main(a, b, текст): return {'a': a[:5], 'b': b, 'c': текст, 'n': len(a)}";
    let wanted = json!({"a": "'\"\\\n{", "b": [1.5, null, {"k": true}], "c": "x", "n": 26});
    assert_eq!(returns(&sandbox, CodeLanguage::Python, code, inputs).await, Ok(wanted));
    let large = json!({"t": "x".repeat(3_000_000)});
    let code = "def main(t): return {'n': len(t), 't': t}";
    let returned = returns(&sandbox, CodeLanguage::Python, code, large.clone()).await.unwrap();
    assert_eq!((&returned["n"], &returned["t"]), (&json!(3_000_000), &large["t"]));
}

#[tokio::test]
async fn what_python_raises_is_told_with_its_place() {
    let sandbox = sandbox(&CodeConfig::default());
    for (code, wanted) in [
        (
            "def main():\n    return {'r': 1 / 0}",
            "process exited with code 1\nTraceback (most recent call last):\n",
        ),
        (
            "def main():\n    return {'r': 1 / 0}",
            "  File \"<code>\", line 2, in main\n    return {'r': 1 / 0}\n",
        ),
        ("def main(x): pass", "TypeError: main() missing 1 required positional argument: 'x'"),
        ("def helper(): pass", "NameError: name 'main' is not defined"),
        ("def main(:", "SyntaxError: "),
        ("def main(): return {1, 2}", "TypeError: Object of type set is not JSON serializable"),
        ("import sys\ndef main(): sys.exit('enough')", "process exited with code 1\nenough"),
        ("import sys\ndef main(): sys.exit(7)", "process exited with code 7"),
        ("import sys\ndef main(): sys.exit()", "no result tag found"),
        ("import os\ndef main(): os._exit(3)", "process exited with code 3"),
        ("def main(): raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def main(): return main()", "RecursionError"),
        ("import ctypes\ndef main(): ctypes.string_at(1)", "error: ended by signal SIGSEGV"),
    ] {
        let error = fails(&sandbox, code).await;
        assert!(error.contains(wanted), "{code}: {error}");
    }
}

#[tokio::test]
async fn executions_have_no_randomness_and_no_names_in_common() {
    let sandbox = sandbox(&CodeConfig { concurrency: 1, ..CodeConfig::default() });
    let code = "import random, builtins\ndef main():\n    seen = getattr(builtins, 'left', None)\n    builtins.left = 1\n\
                \x20   return {'r': random.random(), 'seen': seen}";
    let (first, second) = (python(&sandbox, code).await.unwrap(), python(&sandbox, code).await.unwrap());
    assert_ne!(first["r"], second["r"]);
    assert_eq!((&first["seen"], &second["seen"]), (&Json::Null, &Json::Null));
}
