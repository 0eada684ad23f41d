//! Damage to bytes, of whatever format.

use crate::random::Random;

/// Changes some bytes: bits flipped, parts cut out, doubled, moved or taken from another file, numbers made
/// huge.
pub fn damage(original: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut file = original.to_vec();
    for _ in 0..random.between(1, 4) {
        let at = random.below(file.len());
        match random.below(9) {
            0 if random.once_in(4) => file.truncate(at),
            1 if !file.is_empty() => file[at] ^= 1 << random.below(8),
            2 if !file.is_empty() => file[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff, 0x0a, 0x20]),
            3 => {
                let end = (at + random.below(16)).min(file.len());
                file.drain(at..end);
            }
            4 => {
                let end = (at + random.below(256)).min(file.len());
                let part = file[at..end].to_vec();
                let times = if random.once_in(8) { 200 } else { 1 };
                file.splice(at..at, part.repeat(times));
            }
            5 => {
                let start = random.below(other.len());
                let end = (start + random.below(256)).min(other.len());
                file.splice(at..at, other[start..end].iter().copied());
            }
            6 if file.len() > 8 => {
                let place = random.below(file.len() - 8);
                let number = *random.pick(&crate::random::ODD_INTEGERS);
                file[place..place + 8].copy_from_slice(&number.to_le_bytes());
            }
            7 if file.len() > 4 => {
                let place = random.below(file.len() - 4);
                let number = *random.pick(&crate::random::ODD_INTEGERS) as u32;
                file[place..place + 4].copy_from_slice(&number.to_be_bytes());
            }
            // A variable-length number becomes huge.
            _ => {
                let count = random.between(1, 9);
                let mut number = vec![0xff; count];
                number.push(random.below(128) as u8);
                file.splice(at..at, number);
            }
        }
    }
    file
}

/// Changes a text: lines and words cut, doubled, swapped or replaced.
pub fn damage_text(original: &str, random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<String> = original.lines().map(str::to_owned).collect();
    for _ in 0..random.between(1, 4) {
        let at = random.below(lines.len());
        let Some(line) = lines.get_mut(at) else { break };
        match random.below(6) {
            0 => drop(lines.remove(at)),
            1 => {
                let line = line.clone();
                lines.insert(at, line);
            }
            2 => *line = crate::random::odd_string(random),
            3 => {
                let mut words: Vec<String> = line.split(',').map(str::to_owned).collect();
                let place = random.below(words.len());
                words[place] = odd_word(random);
                *line = words.join(",");
            }
            4 => line.push_str(&format!(",{}", odd_word(random))),
            _ => {
                let bytes = damage(lines.join("\n").as_bytes(), b"\xff\xfe\0\"\"\",\r", random);
                return bytes;
            }
        }
    }
    lines.join("\n").into_bytes()
}

fn odd_word(random: &mut Random) -> String {
    const WORDS: [&str; 12] = [
        "",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "-1",
        "\"",
        "\"a",
        "0x10",
        "1e-400",
        "9223372036854775808",
        "abc",
    ];
    match random.once_in(4) {
        true => crate::random::odd_string(random),
        false => (*random.pick(&WORDS)).to_owned(),
    }
}
