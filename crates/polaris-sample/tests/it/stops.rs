//! Stop strings, however the text is cut.

use polaris_sample::StopDetector;

use crate::Random;

/// The text before the first stop string, and which it is: the plain definition.
fn expected<'a>(stops: &[&str], text: &'a str) -> (&'a str, Option<usize>) {
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let ending = stops.iter().enumerate().filter(|(_, stop)| text[..end].ends_with(**stop));
        if let Some((index, stop)) = ending.rev().max_by_key(|(_, stop)| stop.len()) {
            return (&text[..end - stop.len()], Some(index));
        }
    }
    (text, None)
}

#[test]
fn every_cut_of_a_text_gives_the_same() {
    let mut random = Random::new(4);
    let letters = ["a", "b", "ab", "é", "\n", "日"];
    for _ in 0..3000 {
        let word = |random: &mut Random, most: usize| -> String {
            (0..1 + random.below(most)).map(|_| *random.pick(&letters)).collect()
        };
        let stops: Vec<String> = (0..random.below(4)).map(|_| word(&mut random, 3)).collect();
        let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
        let text = word(&mut random, 14);
        let mut detector = StopDetector::new(&stops).unwrap();
        for _ in 0..2 {
            let (mut shown, mut stopped) = (String::new(), None);
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let count = random.below(4);
                let end = rest.char_indices().nth(count).map_or(rest.len(), |(at, _)| at);
                let (visible, stop) = detector.push(&rest[..end]);
                shown.push_str(visible);
                stopped = stop;
                // What is shown is never taken back.
                assert!(expected(&stops, &text).0.starts_with(&shown));
                rest = &rest[end..];
            }
            shown.push_str(detector.finish());
            assert_eq!((&*shown, stopped), expected(&stops, &text), "{stops:?} {text:?}");
            detector.reset();
        }
    }
}

#[test]
fn bad_stop_strings_are_errors() {
    assert!(StopDetector::new(&[""]).is_err());
    assert!(StopDetector::new(&["x".repeat(5000)]).is_err());
    assert!(StopDetector::new(&vec!["x"; 1000]).is_err());
    assert!(StopDetector::new::<&str>(&[]).is_ok());
}
