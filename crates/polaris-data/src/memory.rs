//! Memory for sizes that a file declares: reserved before use, so that too much is an error and not the end of the
//! process.

use std::path::Path;

/// Requests below this are left to the allocator: asking the system costs more than they do.
const SMALL: u64 = 16 << 20;

/// Refuses what does not fit into memory, with the reason.
///
/// Linux grants more than there is and ends the process that uses it; so the available memory is checked, too.
pub(crate) fn require(bytes: u64) -> Result<(), String> {
    if bytes < SMALL {
        return Ok(());
    }
    if let Some(available) = available()
        && bytes > available
    {
        return Err(format!("it takes {bytes} bytes of memory, and {available} are available"));
    }
    let room = usize::try_from(bytes)
        .ok()
        .and_then(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).ok());
    room.ok_or_else(|| format!("it takes {bytes} bytes of memory, which the system does not grant"))
}

/// Makes room for more elements, up to `most` in all, doubling what there is.
pub(crate) fn grow<T>(values: &mut Vec<T>, most: usize) -> Result<(), String> {
    const FIRST: usize = 1 << 16;
    let wanted = values.len().saturating_mul(2).max(FIRST).min(most);
    let more = wanted.saturating_sub(values.len());
    require(more as u64 * size_of::<T>() as u64)?;
    values.try_reserve_exact(more).map_err(|error| error.to_string())
}

/// Bytes that can be used without swapping, where the system tells.
pub(crate) fn available() -> Option<u64> {
    let text = polaris_files::read_text(Path::new("/proc/meminfo"), 1 << 16).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_is_is_refused() {
        require(1 << 10).unwrap();
        require(1 << 60).unwrap_err();
        require(u64::MAX).unwrap_err();
        let mut values = vec![0u64; 10];
        grow(&mut values, 20).unwrap();
        assert!((20..30).contains(&values.capacity()));
        grow(&mut Vec::<u64>::new(), usize::MAX).unwrap();
    }
}
