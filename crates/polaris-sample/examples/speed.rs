//! Measures sampling and masks for a vocabulary of 128 256 tokens: `cargo run --release -p polaris-sample --example speed`.

use std::sync::Arc;
use std::time::Instant;

use polaris_core::random::SplitMix64;
use polaris_sample::{Grammar, Matcher, Mirostat, Options, Pieces, Sampler};

const SIZE: usize = 128_256;

fn main() -> polaris_sample::Result<()> {
    let mut random = SplitMix64::new(1);
    // A few likely tokens over a broad floor, as models have them; and the hardest case, all about equal.
    let floor = |random: &mut SplitMix64| (0..6).map(|_| random.unit() as f32).sum::<f32>() - 3.0;
    let flat: Vec<f32> = (0..SIZE).map(|_| floor(&mut random)).collect();
    let mut peaked: Vec<f32> = flat.iter().map(|logit| logit * 3.0).collect();
    for rank in 0..300 {
        peaked[(random.bits() % SIZE as u64) as usize] = 18.0 - (rank as f32).ln_1p() * 2.0;
    }
    let defaults = Options::default();
    let off = Options { top_k: 0, top_p: 1.0, min_p: 0.0, ..defaults.clone() };
    let cases = [
        ("defaults", defaults.clone()),
        ("greedy", Options { temperature: 0.0, ..defaults.clone() }),
        ("top-k 1000", Options { top_k: 1000, ..defaults.clone() }),
        (
            "penalties and DRY",
            Options { penalty_repeat: 1.1, dry_multiplier: 0.8, ..defaults.clone() },
        ),
        ("top-n-sigma", Options { top_n_sigma: 1.0, ..defaults.clone() }),
        ("top-p alone", Options { top_p: 0.95, ..off.clone() }),
        ("min-p alone", Options { min_p: 0.05, ..off.clone() }),
        ("typical alone", Options { typical_p: 0.9, ..off.clone() }),
        ("temperature alone", off.clone()),
        ("mirostat", Options { mirostat: Mirostat::V1, ..off.clone() }),
        ("mirostat 2", Options { mirostat: Mirostat::V2, ..off }),
    ];
    println!("microseconds per token, {SIZE} tokens: peaked, flat");
    for (name, options) in cases {
        let mut times = Vec::new();
        for logits in [&peaked, &flat] {
            let mut sampler = Sampler::new(&options, SIZE)?;
            times.push(median(100, || {
                let token = sampler.sample(logits)?;
                sampler.accept(token)
            })?);
        }
        println!("{name:20} {:8.1} {:8.1}", times[0], times[1]);
    }
    masks(&mut random)
}

/// The median of so many runs, in microseconds.
fn median(
    runs: usize,
    mut work: impl FnMut() -> polaris_sample::Result<()>,
) -> polaris_sample::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[runs / 2])
}

/// Words of syllables, with and without a space before them, numbers and symbols: about the shape of a BPE vocabulary.
fn vocabulary(random: &mut SplitMix64) -> Vec<Vec<u8>> {
    let mut below = |end: usize| (random.bits() % end as u64) as usize;
    let mut pieces: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    let syllables =
        ["an", "ter", "o", "ing", "re", "st", "le", "un", "qu", "é", "日", "本", "ка", "th"];
    let symbols =
        ["\"", "{", "}", "[", "]", ":", ",", " ", "\n", "\\", "-", ".", "(", ")", "=", "/"];
    while pieces.len() < SIZE - 1 {
        let mut piece = String::new();
        match below(10) {
            0 => (0..1 + below(4)).for_each(|_| piece += symbols[below(symbols.len())]),
            1 => (0..1 + below(3)).for_each(|_| piece.push((b'0' + below(10) as u8).into())),
            _ => {
                piece += if below(2) == 0 { " " } else { "" };
                (0..1 + below(4)).for_each(|_| piece += syllables[below(syllables.len())]);
                piece.push((b'a' + below(26) as u8).into());
            }
        }
        pieces.push(piece.into_bytes());
    }
    pieces.push(Vec::new());
    pieces
}

fn masks(random: &mut SplitMix64) -> polaris_sample::Result<()> {
    let vocabulary = vocabulary(random);
    let start = Instant::now();
    let pieces = Arc::new(Pieces::new(&vocabulary, &[SIZE as u32 - 1])?);
    println!("trie: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let schema = r#"{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
        "maximum":150},"tags":{"type":"array","items":{"type":"string","maxLength":50}}},"required":["name","age"]}"#;
    let grammars = [
        ("JSON", Grammar::from_json_schema("{}")?),
        ("schema", Grammar::from_json_schema(schema)?),
        (
            "expressions",
            Grammar::from_gbnf(
                "root ::= term ([-+*/] term)*\nterm ::= [a-z]+ | [0-9]{1,9} | \"(\" root \")\"",
            )?,
        ),
    ];
    println!(
        "microseconds per mask over a text: first time (median, largest), again (median); masks; matcher"
    );
    for (name, grammar) in grammars {
        let options = Options { top_k: 0, min_p: 0.0, ..Options::default() };
        let mut sampler = Sampler::new(&options, SIZE)?;
        let start = Instant::now();
        let mut matcher = Matcher::new(&grammar, pieces.clone())?;
        let made = start.elapsed().as_secs_f64() * 1e6;
        let logits: Vec<f32> = (0..SIZE).map(|_| random.unit() as f32).collect();
        let mut tokens = Vec::new();
        let mut first = Vec::new();
        for _ in 0..200 {
            let start = Instant::now();
            matcher.allowed()?;
            first.push(start.elapsed().as_secs_f64() * 1e6);
            let token = sampler.sample_masked(&logits, matcher.allowed()?)?;
            matcher.accept_token(token)?;
            tokens.push(token);
            if pieces.is_end(token) {
                break;
            }
        }
        matcher.reset();
        let mut again = Vec::new();
        for &token in &tokens {
            let start = Instant::now();
            matcher.allowed()?;
            again.push(start.elapsed().as_secs_f64() * 1e6);
            matcher.accept_token(token)?;
        }
        first.sort_by(f64::total_cmp);
        again.sort_by(f64::total_cmp);
        let (middle, last) = (tokens.len() / 2, tokens.len() - 1);
        println!(
            "{name:12} {:9.1} {:9.1} {:9.2} {:6} {made:9.1}",
            first[middle],
            first[last],
            again[middle],
            tokens.len()
        );
    }
    Ok(())
}
