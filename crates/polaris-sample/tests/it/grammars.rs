//! Grammars by hand: what they accept, what they reject, and what is no grammar.

use std::sync::Arc;

use polaris_sample::{Error, Grammar, Matcher, Pieces};

use crate::Random;
use crate::recogniser::accepts;

#[track_caller]
fn check(grammar: &str, good: &[&str], bad: &[&str]) {
    let compiled = Grammar::from_gbnf(grammar).unwrap();
    let mut random = Random::new(1);
    for text in good {
        assert!(accepts(&compiled, text.as_bytes(), &mut random), "{grammar}: {text:?}");
    }
    for text in bad {
        assert!(!accepts(&compiled, text.as_bytes(), &mut random), "{grammar}: {text:?}");
    }
}

#[test]
fn items_and_repetitions() {
    check(r#"root ::= "ab" | "c""#, &["ab", "c"], &["", "a", "abc", "d"]);
    check(r#"root ::= "ab"*"#, &["", "ab", "abab"], &["a", "aba"]);
    check(r#"root ::= [a-c]{2,3} "x"?"#, &["ab", "abcx", "aax"], &["a", "abcc", "xab", "abcxx"]);
    check(r#"root ::= [a-c]{2}"#, &["ab"], &["a", "abc"]);
    check(r#"root ::= [a]{2,} "b""#, &["aab", "aaaaab"], &["ab", "aa"]);
    check(r#"root ::= [^a-y\n]+"#, &["z", "zé日"], &["a", "z\n", ""]);
    check(r#"root ::= [-a] [a-] [\]\[]"#, &["--]", "aa["], &["b-]", "-b]"]);
    check(r#"root ::= . "." "#, &["é.", "\n.", "😀."], &[".", "..."]);
    check(r#"root ::= "\x41\u00e9\U0001F600\t\r\n\\\"\[\]""#, &["Aé😀\t\r\n\\\"[]"], &["A"]);
    check(r#"root ::= "" "a" """#, &["a"], &["", "aa"]);
    check(r#"root ::= ("a" | )"#, &["a", ""], &["b"]);
    check(r#"root ::= "a"{0} "b""#, &["b"], &["ab"]);
    // Items that match the empty text, repeated.
    check(r#"root ::= (("a"?)* "b"?)* "c""#, &["c", "abaabc", "bbc"], &["", "ca"]);
    check(r#"root ::= "a"{3}{2}"#, &["aaaaaa"], &["aaa", "aaaaa"]);
}

#[test]
fn rules_and_layout() {
    let grammar = "# first\nroot ::= list # the root\n\nlist ::= item (\n  \",\"\n  item )*   # more\nitem ::=\n \
                   \"x\" | list2 |\n \"y\"\r\nlist2 ::= \"[\" list \"]\"";
    check(grammar, &["x", "x,y", "[x,[y]],x"], &["", "x,", "[x", "[]"]);
    // Recursion at the end and in the middle.
    check("root ::= \"a\" root | \"b\"", &["b", "aaab"], &["a", "ba"]);
    check("root ::= \"a\" root \"b\" | \"\"", &["", "ab", "aaabbb"], &["aab", "ba"]);
    // Both ways to read a text lead on.
    check("root ::= \"a\"* \"a\" \"b\" | \"a\" \"c\"", &["ab", "aaab", "ac"], &["aac", "b"]);
}

#[test]
fn mistakes_are_found_where_they_are() {
    let cases = [
        ("", "no rule `root`"),
        ("a ::= \"x\"", "no rule `root`"),
        ("root ::= a", "the rule `a` has no definition"),
        ("root ::= \"x\"\nroot ::= \"y\"", "defined twice"),
        ("root = \"x\"", "`::=` is expected"),
        ("root ::= \"x", "`\"` is expected"),
        ("root ::= [x", "`]` is expected"),
        ("root ::= (\"x\"", "`)` is expected"),
        ("root ::= \"x\")", "the end of the line"),
        ("root ::= *", "nothing to repeat"),
        ("root ::= \"x\"{2,1}", "ends below"),
        ("root ::= \"x\"{a}", "a number of repetitions"),
        ("root ::= \"x\"{,2}", "a number of repetitions"),
        ("root ::= \"x\"{99999999999999999999}", "repetitions exceed the limit"),
        ("root ::= \"\\q\"", "unknown escape"),
        ("root ::= \"\\x4\"", "hexadecimal"),
        ("root ::= \"\\U00110000\"", "beyond the last"),
        ("root ::= \"\\uD800\"", "is not a character"),
        ("root ::= []", "no character"),
        ("root ::= [z-a]", "the smaller end comes first"),
        ("root ::= <think>", "not supported"),
        ("root ::= root \"a\" | \"b\"", "left recursion"),
        ("root ::= a \"x\"\na ::= b\nb ::= \"\" root", "left recursion"),
        ("root ::= \"y\"? \"z\"* root \"x\" | \"w\"", "left recursion"),
        ("root ::= \"x\" a | \"y\"\na ::= a", "left recursion"),
        ("root ::= \"x\" root", "matches no finite text"),
    ];
    for (grammar, message) in cases {
        let error = Grammar::from_gbnf(grammar).unwrap_err().to_string();
        assert!(error.contains(message), "{grammar:?}: {error}");
    }
    let error = Grammar::from_gbnf("root ::= a\na ::= \"é\" ?? )").unwrap_err();
    assert!(matches!(error, Error::Grammar { line: 2, column: 14, .. }), "{error}");
}

#[test]
fn alternatives_without_an_end_are_never_offered() {
    let grammar = Grammar::from_gbnf("root ::= \"a\" loop | \"ab\"\nloop ::= \"b\" loop").unwrap();
    let pieces = Arc::new(Pieces::new(&["a", "b", "ab", ""], &[3]).unwrap());
    let mut matcher = Matcher::new(&grammar, pieces).unwrap();
    matcher.accept(b"ab").unwrap();
    assert!(matcher.is_complete() && !matcher.can_continue());
    let mask = matcher.allowed().unwrap();
    assert_eq!((mask.count(), mask.allows(3)), (1, true));
}

#[test]
fn tokens_may_cut_characters() {
    let grammar = Grammar::from_gbnf("root ::= [é-ï]+ \"😀\"").unwrap();
    let pieces: [&[u8]; 9] = [
        b"\xc3",
        b"\xa9",
        b"\xa9\xf0",
        b"\x9f\x98",
        b"\x80",
        b"\xc3\xaf\xc3",
        b"\xc3\xb0",
        b"\xff",
        b"",
    ];
    let mut matcher =
        Matcher::new(&grammar, Arc::new(Pieces::new(&pieces, &[8]).unwrap())).unwrap();
    let mut allowed = |token: Option<u32>| -> Vec<u32> {
        if let Some(token) = token {
            matcher.accept_token(token).unwrap();
        }
        let mask = matcher.allowed().unwrap().clone();
        let all: Vec<u32> = (0..9).filter(|&token| mask.allows(token)).collect();
        for token in 0..9 {
            assert_eq!(matcher.permits(token).unwrap(), mask.allows(token));
        }
        all
    };
    assert_eq!(allowed(None), [0, 5]);
    assert_eq!(allowed(Some(5)), [1, 2]);
    assert_eq!(allowed(Some(2)), [3]);
    assert_eq!(allowed(Some(3)), [4]);
    assert_eq!(allowed(Some(4)), [8]);
    assert_eq!(allowed(Some(8)), [] as [u32; 0]);
    assert!(matcher.accept_token(8).is_err() && matcher.accept(b"").is_err());
    assert!(matcher.accept_token(9).is_err());
    matcher.reset();
    let before = matcher.allowed().unwrap().clone();
    assert!(matcher.accept(b"\xc3\xa9\xc3x").is_err());
    assert_eq!(*matcher.allowed().unwrap(), before, "a rejected text changes nothing");
}

#[test]
fn grammars_of_llama_cpp_are_read() {
    let Some(folder) = std::env::var_os("POLARIS_LLAMA_CPP") else {
        println!("skipped: POLARIS_LLAMA_CPP names no checkout of llama.cpp");
        return;
    };
    let folder = std::path::Path::new(&folder).join("grammars");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "gbnf") {
            let text = std::fs::read_to_string(&path).unwrap();
            let grammar = Grammar::from_gbnf(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            let name = path.file_name().unwrap().to_str().unwrap();
            let samples: &[(&str, &str)] = &[
                ("json.gbnf", "{\"a\": [1, true, \"x\\n\"]}"),
                ("arithmetic.gbnf", "1 +x = 2\n"),
                ("list.gbnf", "- one\n- two\n"),
            ];
            for (_, sample) in samples.iter().filter(|sample| sample.0 == name) {
                assert!(accepts(&grammar, sample.as_bytes(), &mut Random::new(1)), "{name}");
            }
            count += 1;
        }
    }
    assert!(count >= 8, "{count} grammars");
}
