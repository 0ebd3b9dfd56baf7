//! Tests of the JavaScript environment and of ends of executions, without confinement, which is the helper's task.

use super::*;

const LIMITS: Limits = Limits { time: Duration::from_secs(5), memory_bytes: 64 << 20, output_bytes: 1 << 20 };

fn printed(code: &str) -> Result<String, (Verdict, String)> {
    let ended = execute(code, r#"{"n": 7}"#, LIMITS);
    match ended.verdict {
        Verdict::Exit { code: 0 } => Ok(ended.stdout),
        other => Err((other, ended.stderr)),
    }
}

#[test]
fn main_gets_one_object_and_its_result_is_marked() {
    for (code, wanted) in [
        ("const main = ({n}) => ({a: n + 1})", "<<RESULT>>{\"a\":8}<<RESULT>>\n"),
        (
            "function main() { console.log('x', {y: 1}, 2n); return {} }",
            "x {\"y\":1} 2n\n<<RESULT>>{}<<RESULT>>\n",
        ),
        ("function main() {}", "<<RESULT>>undefined<<RESULT>>\n"),
        ("async function main() { return {a: 1} }", "<<RESULT>>{}<<RESULT>>\n"),
        ("async function main() { await null; console.log('later') }", "<<RESULT>>{}<<RESULT>>\nlater\n"),
        ("x = 1; function main() { return {x} }", "<<RESULT>>{\"x\":1}<<RESULT>>\n"),
    ] {
        assert_eq!(printed(code).as_deref(), Ok(wanted), "{code}");
    }
}

#[test]
fn what_is_thrown_is_named_with_its_place() {
    for (code, wanted) in [
        ("function main() { throw new Error('bang') }", "Error: bang\n    at main (code.js:1"),
        ("function main() { null.x }", "TypeError: "),
        ("function main() { throw 'text' }", "Uncaught text"),
        ("const f = 1", "ReferenceError: main is not defined"),
        ("function main( {", "SyntaxError: "),
        ("function main() { require('fs') }", "ReferenceError: require is not defined"),
        ("function main() { setTimeout(main, 1) }", "ReferenceError: setTimeout is not defined"),
        ("async function main() { throw new TypeError('late') }", "TypeError: late"),
        ("function main() { return main() }", "RangeError"),
        ("function main() { const a = {}; a.a = a; return a }", "TypeError: circular"),
    ] {
        let (verdict, stderr) = printed(code).expect_err(code);
        assert_eq!(verdict, Verdict::Exit { code: 1 }, "{code}");
        assert!(stderr.contains(wanted), "{code}: {stderr}");
    }
}

#[test]
fn a_handled_rejection_is_no_failure() {
    let code = "function main() { const p = Promise.reject(new Error('x')); p.catch(() => {}); return {} }";
    assert!(printed(code).is_ok());
}

#[test]
fn time_memory_and_output_are_bounded() {
    let brief = Limits { time: Duration::from_millis(100), ..LIMITS };
    for code in [
        "function main() { while (true) {} }",
        "function main() { while (true) { try { while (true) {} } catch {} finally { continue } } }",
        "async function main() { while (true) { await null } }",
    ] {
        assert_eq!(execute(code, "{}", brief).verdict, Verdict::Timeout, "{code}");
    }
    let small = Limits { output_bytes: 1000, ..LIMITS };
    let code = "function main() { while (true) { try { console.log('x'.repeat(100)) } catch {} } }";
    assert_eq!(execute(code, "{}", small).verdict, Verdict::Output);
    let (verdict, stderr) = printed(
        "function main() { const all = []; while (true) { all.push('x'.repeat(1e6) + all.length) } }",
    )
    .unwrap_err();
    assert_eq!(verdict, Verdict::Exit { code: 1 });
    assert!(stderr.contains("out of memory"), "{stderr}");
}
