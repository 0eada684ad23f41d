//! Prints `src/category_table.rs`: `cargo run -p polaris-tokenizer --example categories`.
//!
//! The table holds the general categories of Unicode as the regular expressions of the `tokenizers` crate know them, so
//! that both split texts alike.

use fancy_regex::Regex;

/// The classes, in the order of `categories::Class`; what is in none of them is class 0.
const CLASSES: [&str; 10] = ["Lu", "Ll", "Lt", "Lm", "Lo", "M", "Nd", "[\\p{Nl}\\p{No}]", "P", "S"];

fn main() {
    let every: String = (0..=char::MAX as u32).filter_map(char::from_u32).collect();
    let mut class_of = vec![0u32; char::MAX as usize + 1];
    let mut han = Vec::new();
    let mark = |pattern: &str, mut with: Box<dyn FnMut(u32) + '_>| {
        let regex = Regex::new(pattern).expect("the pattern should be valid");
        for found in regex.find_iter(&every) {
            let found = found.expect("a class should match in bounded steps");
            found.as_str().chars().for_each(|c| with(c as u32));
        }
    };
    for (number, class) in CLASSES.iter().enumerate() {
        let pattern =
            if class.starts_with('[') { (*class).to_owned() } else { format!("\\p{{{class}}}") };
        mark(&pattern, Box::new(|c| class_of[c as usize] = number as u32 + 1));
    }
    mark("\\p{Han}", Box::new(|c| han.push(c)));

    println!("//! General categories of Unicode 16; `examples/categories.rs` prints this file.\n");
    println!("/// The first code point of each run of one class, times 16, plus the class.");
    println!("#[rustfmt::skip]\npub(crate) static RUNS: &[u32] = &[");
    let mut runs = vec![class_of[0]];
    for c in 1..class_of.len() {
        if class_of[c] != class_of[c - 1] {
            runs.push((c as u32) << 4 | class_of[c]);
        }
    }
    for line in runs.chunks(13) {
        let line: Vec<String> = line.iter().map(|run| format!("0x{run:x},")).collect();
        println!("    {}", line.join(" "));
    }
    println!("];\n");
    println!("/// The script Han: the first and the last character of each run.");
    println!("#[rustfmt::skip]\npub(crate) const HAN: &[(char, char)] = &[");
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for c in han {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == c => *last = c,
            _ => ranges.push((c, c)),
        }
    }
    for line in ranges.chunks(4) {
        let line: Vec<String> =
            line.iter().map(|(a, b)| format!("('\\u{{{a:x}}}', '\\u{{{b:x}}}'),")).collect();
        println!("    {}", line.join(" "));
    }
    println!("];");
}
