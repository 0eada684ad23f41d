//! The SHA-256 of a file of tensors, header included, in the file's own metadata.
//!
//! It is computed with zeros in its own place, so that every other byte counts.

use sha2::{Digest, Sha256};

/// The key of the metadata that holds it.
pub const KEY: &str = "polaris.sha256";

/// What stands in its place while it is computed.
pub const NONE_YET: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Puts the checksum into a header that has [`NONE_YET`] in its place.
pub fn fill_in(head: &mut [u8], data: &[Vec<u8>]) {
    let mut hash = Sha256::new();
    hash.update(&*head);
    data.iter().for_each(|bytes| hash.update(bytes));
    let place = place_in(head).expect("the header should have been written with the key");
    head[place..place + NONE_YET.len()].copy_from_slice(in_hex(hash).as_bytes());
}

/// Whether a file is as it was written.
pub fn check(head: &[u8], data: &[u8], stated: &str) -> Result<(), String> {
    let place = place_in(head).filter(|place| head[*place..].starts_with(stated.as_bytes()));
    let place = place.filter(|_| stated.len() == NONE_YET.len());
    let found = place.map(|place| {
        let mut hash = Sha256::new();
        hash.update(&head[..place]);
        hash.update(NONE_YET);
        hash.update(&head[place + NONE_YET.len()..]);
        hash.update(data);
        in_hex(hash)
    });
    match found {
        Some(found) if found == stated => Ok(()),
        _ => Err("it is damaged or was changed: its bytes do not have the SHA-256 that it states \
                  (polaris.sha256); take another copy"
            .to_owned()),
    }
}

/// Where the checksum begins. Quotes in names and values have a backslash before them, so that only the key
/// itself is found.
fn place_in(head: &[u8]) -> Option<usize> {
    let before = format!("\"{KEY}\":\"");
    let start = head.windows(before.len()).position(|bytes| bytes == before.as_bytes())?;
    let place = start + before.len();
    (place + NONE_YET.len() <= head.len()).then_some(place)
}

fn in_hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
