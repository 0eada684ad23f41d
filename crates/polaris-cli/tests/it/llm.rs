//! Commands of language models, with a small one of random weights.

use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::{Answer, Home};
use crate::tiny_llm::{Tiny, folder};

fn model(home: &Home) -> PathBuf {
    let path = home.path("tiny.gguf");
    std::fs::write(&path, Tiny::LLAMA.bytes()).unwrap();
    path
}

/// Runs a command with this text on stdin.
fn with_input(home: &Home, arguments: &str, text: &str) -> Answer {
    let mut child = home.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    Answer::from(child.wait_with_output().unwrap())
}

#[test]
fn a_file_is_described() {
    let home = Home::new();
    let path = model(&home);
    let info =
        home.run(&format!("info {} --device cpu --json", path.display())).exits_with(0).json();
    assert_eq!(
        (&info["schema"], &info["architecture"]),
        (&"polaris.info.gguf/1".into(), &"llama".into())
    );
    assert_eq!((&info["supported"], &info["layers"]), (&true.into(), &3.into()));
    assert_eq!(
        (&info["devices"][0]["device"], &info["devices"][0]["fits"]),
        (&"cpu".into(), &true.into())
    );
    home.run(&format!("info {} --device cpu", path.display())).exits_with(0).says(&[
        "tiny: llama",
        "F32",
        "yes",
    ]);
    let plan = home
        .run(&format!("plan {} --device cpu --dim tokens=5 --json", path.display()))
        .exits_with(0)
        .json();
    let steps: Vec<&str> =
        plan["steps"].as_array().unwrap().iter().map(|step| step.as_str().unwrap()).collect();
    assert!(
        steps
            .iter()
            .any(|step| step.starts_with("blk.2.attention: cached_attention(f32[5, 4, 64]")),
        "{steps:#?}"
    );
    let cut = home.path("cut.gguf");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    for command in ["info", "generate", "chat", "bench llm", "tokenize"] {
        let answer = home.run(&format!("{command} {} --device cpu", cut.display())).exits_with(3);
        assert!(answer.stderr.contains("cut off"), "{answer:#?}");
    }
}

/// Numbers of a request that are negative, or beyond what there is.
#[test]
fn cve_2026_21869_numbers_of_requests() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    for option in
        ["-n=-1", "-c=-1", "-c=0", "--batch=-1", "--batch=0", "--seed=-1", "--logit-bias=-1=1"]
    {
        home.run(&format!("generate {path} --device cpu -p abc {option}")).exits_with(2);
    }
    for (option, found) in [
        ("--logit-bias=4294967295=1", "4294967295"),
        ("--logit-bias=300=1", "300"),
        ("-c=4294967295", "tokens fit"),
    ] {
        let answer = home.run(&format!("generate {path} --device cpu -p abc -n 1 {option}"));
        assert!(answer.code != Some(0) && answer.stderr.contains(found), "{option}: {answer:#?}");
    }
    // Keeping no token and counting none as recent means something.
    home.run(&format!("generate {path} --device cpu -p abc -n 0 --top-k=0 --repeat-last=0"))
        .exits_with(0);
    // So do all tokens, and the whole context.
    home.run(&format!("generate {path} --device cpu -p abc -n 2 --top-k -1 --repeat-last -1"))
        .exits_with(0);
    for option in ["--top-k=-2", "--repeat-last=-2"] {
        home.run(&format!("generate {path} --device cpu -p abc -n 2 --repeat-penalty 2 {option}"))
            .exits_with(2);
    }
}

#[test]
fn text_is_generated_scored_and_cut_into_tokens() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let greedy =
        format!("generate {path} --device cpu -p abc -n 5 --temperature 0 --ignore-end --json");
    let first = home.run(&greedy).exits_with(0).json();
    assert_eq!((&first["tokens"], &first["finish"]), (&5.into(), &"length".into()));
    assert_eq!(home.run(&greedy).exits_with(0).json()["text"], first["text"]);
    home.run(&format!("generate {path} --device cpu -p abc --top-p 2"))
        .exits_with(2)
        .says(&["top_p", "0 to 1"]);
    home.run(&format!("generate {path} --device cpu --mode hybrid")).exits_with(2);
    let long = format!("generate {path} --device cpu -c 16 -n 2 -p {}", "x".repeat(40));
    home.run(&long).exits_with(3).says(&["40 tokens", "context of 16"]);
    home.run(&format!("{long} --truncate")).exits_with(0).says(&["left out"]);
    let tokens =
        home.run(&format!("tokenize {path} ab<end> --special --json")).exits_with(0).json();
    let ids: Vec<u64> = tokens["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [97, 98, 256]);
    let text = home.path("text.txt");
    std::fs::write(&text, "It is a star, and it is far away. ".repeat(8)).unwrap();
    let scored = format!(
        "perplexity {path} {} --device cpu --window 32 --base {path} --json",
        text.display()
    );
    let scored = home.run(&scored).exits_with(0).json();
    assert!(scored["perplexity"].as_f64().unwrap() > 1.0, "{scored:#}");
    assert_eq!((&scored["divergence"]["same_top"], &scored["windows"]), (&1.0.into(), &8.into()));
    assert!(scored["divergence"]["mean"].as_f64().unwrap().abs() < 1e-9);
}

#[test]
fn language_models_are_compared_on_a_text() {
    let home = Home::new();
    let (path, small, text) = (model(&home), home.path("small.gguf"), home.path("text.txt"));
    std::fs::write(&text, "It is a star, and it is far away. ".repeat(40)).unwrap();
    let (path, small, text) = (path.display(), small.display(), text.display());
    home.run(&format!("quantize {path} -o {small} --type Q4_0")).exits_with(0);
    let compare = |first: &str, second: &str, more: &str| {
        home.run(&format!("compare {first} {second} --data {text} {more}"))
    };
    let (first, second) = (path.to_string(), small.to_string());
    let found = compare(&first, &second, "--json").exits_with(0).json();
    assert_eq!((&found["schema"], &found["windows"]), (&"polaris.compare.llm/1".into(), &2.into()));
    let [before, after] = [&found["models"][0], &found["models"][1]];
    assert!(before["bytes"].as_u64() > after["bytes"].as_u64(), "{found:#}");
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    for side in [before, after] {
        assert!(number(&side["perplexity"]) > 1.0 && number(&side["tokens_per_second"]) > 0.0);
    }
    assert!(number(&found["kl_mean"]) > 1e-7, "{found:#}");
    let same = compare(&first, &first, "--samples 1 --json").exits_with(0).json();
    assert_eq!((&same["windows"], &same["top1_agreement"]), (&1.into(), &1.0.into()));
    compare(&first, &first, "").exits_with(0).says(&["100.00 %", "tokens/s"]);
    let onnx = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits.onnx");
    compare(&first, onnx, "").exits_with(2).says(&["two of a kind"]);
}

#[test]
fn speculation_gives_the_same_text() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let greedy = format!(
        "generate {path} --device cpu -p abcabcabcabc -n 40 --temperature 0 --ignore-end --json"
    );
    let plain = home.run(&greedy).exits_with(0).json();
    assert_eq!((&plain["proposed_tokens"], &plain["accepted_tokens"]), (&0.into(), &0.into()));
    for option in ["--speculate ngram", &format!("--draft {path} --draft-tokens 4")] {
        let found = home.run(&format!("{greedy} {option}")).exits_with(0).json();
        assert_eq!(found["text"], plain["text"]);
        // How many there are depends on the speed of the machine.
        let count = |name: &str| found[name].as_u64().unwrap();
        assert!(count("accepted_tokens") <= count("proposed_tokens"), "{found:#}");
    }
    let chat = format!("chat {path} --device cpu -c 128 -n 4 --temperature 0 --json");
    let answer = with_input(&home, &format!("{chat} --speculate ngram"), "hello\n").exits_with(0);
    let found: serde_json::Value = serde_json::from_str(answer.stdout.trim()).unwrap();
    let plain = with_input(&home, &chat, "hello\n").exits_with(0);
    let plain: serde_json::Value = serde_json::from_str(plain.stdout.trim()).unwrap();
    assert_eq!((&found["text"], found["proposed_tokens"].is_u64()), (&plain["text"], true));
    for wrong in [
        "--speculate maybe",
        "--draft-tokens 4",
        &format!("--draft {path} --draft-tokens 16"),
        &format!("--draft {path} --speculate ngram"),
    ] {
        home.run(&format!("{greedy} {wrong}")).exits_with(2);
    }
    let other = home.run(&format!("{greedy} --draft tiny"));
    assert!(other.code != Some(0) && other.stderr.contains("another vocabulary"), "{other:#?}");
}

#[test]
fn a_chat_answers_from_stdin() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let save = home.path("chat.json");
    let said = format!("/system be brief\nhello\n/nonsense\nand you?\n/save {}\n", save.display());
    let answer = with_input(
        &home,
        &format!("chat {path} --device cpu -c 128 -n 4 --temperature 0 --json"),
        &said,
    );
    let answer = answer.exits_with(0).says(&["there is no command `/nonsense`", "saved to"]);
    let lines: Vec<serde_json::Value> =
        answer.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{answer:#?}");
    assert_eq!(lines[0]["schema"], "polaris.chat/1");
    assert!(lines[1]["reused_tokens"].as_u64().unwrap() > 5, "{answer:#?}");
    let saved: serde_json::Value = serde_json::from_slice(&std::fs::read(&save).unwrap()).unwrap();
    let messages = saved["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    assert_eq!(
        (&messages[0]["role"], &messages[1]["content"]),
        (&"system".into(), &"hello".into())
    );
}

#[test]
fn a_chat_drops_its_oldest_turns_if_it_may() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let text = format!("{}\n", "x".repeat(40)).repeat(4);
    let chat = format!("chat {path} --device cpu -c 128 -n 16 --temperature 0");
    with_input(&home, &chat, &text).exits_with(3).says(&["context of 128"]);
    let answer = with_input(&home, &format!("{chat} --truncate"), &text);
    answer.exits_with(0).says(&["2 oldest messages no longer fit"]);
    let answer = with_input(&home, &format!("{chat} --truncate --json"), &text).exits_with(0);
    let dropped = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["dropped_messages"].as_u64().unwrap()
    };
    let dropped: Vec<u64> = answer.stdout.lines().map(dropped).collect();
    assert!(dropped.len() == 4 && dropped[0] == 0 && dropped[3] == 2, "{dropped:?}");
}

/// What a folder suggests counts where the user says nothing else.
#[test]
fn a_folder_suggests_how_tokens_are_chosen() {
    let home = Home::new();
    let path = home.path("tiny");
    std::fs::create_dir(&path).unwrap();
    folder::write(&path, &Tiny::LLAMA, 1);
    folder::write_tokenizer(&path);
    let run = |options: &str| {
        let path = path.display();
        let command =
            format!("generate {path} --device cpu -p abc -n 12 --ignore-end --json {options}");
        home.run(&command).exits_with(0).json()["text"].clone()
    };
    let (greedy, varied) = (run("--temperature 0"), run(""));
    assert_ne!(greedy, varied);
    std::fs::write(path.join("generation_config.json"), r#"{"temperature": 0.0}"#).unwrap();
    assert_eq!((run(""), run("--temperature 0.8")), (greedy, varied));
}

/// On a fresh machine there is something to talk to.
#[test]
fn the_model_that_is_built_in_answers() {
    let home = Home::new();
    let ask = |question: &str| {
        let answer = with_input(&home, "chat --device cpu --temperature 0 -n 64 --json", question);
        let answer = answer.exits_with(0);
        let answer: serde_json::Value = serde_json::from_str(answer.stdout.trim()).unwrap();
        assert_eq!(answer["finish"], "end", "{answer:#}");
        answer["text"].as_str().unwrap().to_owned()
    };
    assert!(ask("What is Polaris?\n").contains("engine"), "{}", ask("What is Polaris?\n"));
    assert!(ask("who are you\n").contains("toy"), "{}", ask("who are you\n"));
    let info = home.run("info tiny --device cpu --json").exits_with(0).json();
    assert_eq!((&info["architecture"], &info["supported"]), (&"llama".into(), &true.into()));
    assert!(info["bytes"].as_u64().unwrap() < 2_000_000);
    home.run("generate tiny --device cpu -n 4").exits_with(0);
    home.run("tokenize tiny <|im_end|> --special").exits_with(0);
}

/// A device without room is an error; a pipe that nobody reads any more is the end.
#[cfg(unix)]
#[test]
fn stdout_may_be_full_or_closed() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let generate = format!("generate {path} --device cpu -c 64 -n 40 --ignore-end -p abc");
    for json in ["", " --json"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = home.command(&format!("{generate}{json}"));
        let answer = Answer::from(command.stdout(full).output().unwrap());
        answer.exits_with(3).says(&["No space left on device"]);
        let mut command = home.command(&format!("{generate}{json}"));
        let answer = Answer::from(command.stdout(std::io::pipe().unwrap().1).output().unwrap());
        answer.exits_with(0);
    }
}

/// What a user types is text, also where it is the text of a special token; what is no UTF-8 is an error.
#[test]
fn a_chat_takes_any_text() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let chat = format!("chat {path} --device cpu -c 128 -n 2 --temperature 0 --json");
    let prompt_tokens = |text: &str| {
        let answer = with_input(&home, &chat, text).exits_with(0);
        let line = answer.stdout.lines().next().unwrap().to_owned();
        serde_json::from_str::<serde_json::Value>(&line).unwrap()["prompt_tokens"].as_u64().unwrap()
    };
    // One token for each byte, as for any other text of this length.
    assert_eq!(prompt_tokens("a<end>b\n"), prompt_tokens("abcdefg\n"));
    let mut child = home.command(&chat).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\xff\n").unwrap();
    Answer::from(child.wait_with_output().unwrap()).exits_with(3).says(&["UTF-8"]);
    let long = with_input(&home, &chat, &format!("{}\n", "x".repeat(300))).exits_with(3);
    assert!(long.stderr.contains("context of 128"), "{long:#?}");
}

#[test]
fn speed_is_a_document_with_a_result_for_each_test() {
    let home = Home::new();
    let path = model(&home).display().to_string();
    let command =
        format!("bench llm {path} --device cpu --threads 1 -p 8,16 -n 4 -r 2 --profile --json");
    let measured = home.run(&command).exits_with(0).json();
    let results = measured["results"].as_array().unwrap();
    let tests: Vec<&str> = results.iter().map(|result| result["test"].as_str().unwrap()).collect();
    assert_eq!(tests, ["pp8", "pp16", "tg4"]);
    for result in results {
        assert_eq!((&result["threads"], &result["device"]), (&1.into(), &"cpu".into()));
        assert!(result["tokens_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(result["samples"].as_array().unwrap().len(), 2);
        // One key projection for each of three layers in each run of the plan.
        let profile = result["profile"].as_array().unwrap();
        let keys = profile.iter().find(|step| step["step"] == "attn_k").unwrap();
        let runs = if result["test"] == "tg4" { 12 } else { 3 };
        assert_eq!((&keys["runs"], &keys["operation"]), (&runs.into(), &"matmul".into()));
    }
}

#[test]
fn a_folder_is_used_as_a_file_is() {
    let home = Home::new();
    let file = model(&home).display().to_string();
    let path = home.path("tiny");
    std::fs::create_dir(&path).unwrap();
    folder::write(&path, &Tiny::LLAMA, 2);
    folder::write_tokenizer(&path);
    let path = path.display().to_string();
    let info = home.run(&format!("info {path} --device cpu --json")).exits_with(0).json();
    assert_eq!((&info["architecture"], &info["supported"]), (&"llama".into(), &true.into()));
    assert_eq!((&info["name"], &info["layers"]), (&"tiny".into(), &3.into()));
    let plan = home.run(&format!("plan {path} --device cpu --json")).exits_with(0).json();
    assert!(plan["steps"].as_array().unwrap().len() > 30);
    let generated = [&file, &path].map(|model| {
        let command = format!(
            "generate {model} --device cpu -p abc -n 8 --temperature 0 --ignore-end --json"
        );
        home.run(&command).exits_with(0).json()["text"].clone()
    });
    assert_eq!(generated[0], generated[1]);
    let tokens =
        home.run(&format!("tokenize {path} ab<end> --special --json")).exits_with(0).json();
    assert_eq!(tokens["count"], 3);
    let text = home.path("text.txt");
    std::fs::write(&text, "It is a star, and it is far away. ".repeat(8)).unwrap();
    let scored = format!("perplexity {path} {} --device cpu --window 32 --json", text.display());
    assert!(home.run(&scored).exits_with(0).json()["perplexity"].as_f64().unwrap() > 1.0);
    let chat = format!("chat {path} --device cpu -c 128 -n 4 --temperature 0 --json");
    let answer = with_input(&home, &chat, "hello\n").exits_with(0);
    assert!(!answer.stderr.contains("ChatML"), "{answer:#?}");
    home.run(&format!("bench llm {path} --device cpu --threads 1 -p 8 -n 2 -r 1 --json"))
        .exits_with(0);
    let empty = home.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let error = home.run(&format!("chat {} --device cpu", empty.display())).exits_with(3);
    assert!(error.stderr.contains("config.json"), "{error:#?}");
    std::fs::write(empty.join("config.json"), r#"{"model_type": "mamba"}"#).unwrap();
    for command in ["chat", "generate", "info", "plan"] {
        let error = home.run(&format!("{command} {} --device cpu", empty.display())).exits_with(3);
        assert!(error.stderr.contains("`mamba` is not supported"), "{error:#?}");
    }
}
