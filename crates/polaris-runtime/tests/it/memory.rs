//! Buffers on every device: bytes survive the way there and back, views share memory, and wrong
//! requests are structured errors.

use crate::common::{assert_same, pattern, runtime};
use polaris_core::{DType, Element};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, Error};

/// Odd lengths, and one that crosses borders of staging chunks (1 MiB) in every type.
fn lengths<T>() -> [usize; 5] {
    [0, 1, 3, 1023, (4 << 20) / size_of::<T>() + 13]
}

fn round_trip<T: Element>(device: &DeviceRef) {
    for len in lengths::<T>() {
        let what = format!("{len} of {} on {}", T::DTYPE, device.id());
        let values = pattern::<T>(len, 1);
        let buffer = device.upload(&values).unwrap();
        assert_eq!((buffer.dtype(), buffer.len(), buffer.is_empty()), (T::DTYPE, len, len == 0));
        assert_eq!(buffer.bytes(), len * size_of::<T>());
        assert_same(&buffer.to_vec::<T>().unwrap(), &values, &what);
        // Written again, since a buffer is not only what it was made with.
        let other = pattern::<T>(len, 2);
        buffer.write(&other).unwrap();
        let mut read = pattern::<T>(len, 3);
        buffer.read_into(&mut read).unwrap();
        assert_same(&read, &other, &what);
    }
}

#[test]
fn what_is_uploaded_is_downloaded() {
    for device in runtime().devices() {
        for_every_dtype!(round_trip(device));
    }
}

#[test]
fn a_part_of_a_large_buffer_is_written_and_read_alone() {
    for device in runtime().devices() {
        let mut values = pattern::<u8>((9 << 20) + 5, 1);
        let buffer = device.upload(&values).unwrap();
        let part = 3..(8 << 20) + 4;
        let new = pattern::<u8>(part.len(), 9);
        buffer.view(part.clone()).unwrap().write(&new).unwrap();
        values[part.clone()].copy_from_slice(&new);
        assert_same(&buffer.to_vec::<u8>().unwrap(), &values, "the whole");
        assert_same(&buffer.view(part).unwrap().to_vec::<u8>().unwrap(), &new, "the part");
    }
}

#[test]
fn views_and_clones_share_memory() {
    for device in runtime().devices() {
        let buffer = device.upload(&[0i32, 1, 2, 3, 4, 5, 6]).unwrap();
        let view = buffer.view(2..6).unwrap();
        let inner = view.view(1..3).unwrap();
        assert_eq!((inner.byte_offset(), inner.len()), (12, 2));
        assert!(inner.shares_memory_with(&buffer) && view.shares_memory_with(&buffer.clone()));
        assert!(!buffer.shares_memory_with(&device.upload(&[0i32]).unwrap()));
        inner.write(&[30, 40]).unwrap();
        drop(view);
        assert_eq!(buffer.to_vec::<i32>().unwrap(), [0, 1, 2, 30, 40, 5, 6]);
        drop(buffer);
        assert_eq!(inner.to_vec::<i32>().unwrap(), [30, 40], "the view keeps the memory alive");
        assert!(inner.view(2..2).unwrap().to_vec::<i32>().unwrap().is_empty());
    }
}

#[test]
fn a_view_beyond_the_buffer_is_refused() {
    for device in runtime().devices() {
        let buffer = device.upload(&[0u8; 10]).unwrap();
        let view = buffer.view(2..8).unwrap();
        #[expect(clippy::reversed_empty_ranges)]
        let cases = [
            (&buffer, 0..11, 11, 10),
            (&buffer, 11..11, 11, 10),
            (&buffer, 4..2, 4, 10),
            (&view, 0..7, 7, 6),
            (&view, 3..usize::MAX, usize::MAX, 6),
        ];
        for (buffer, range, asked, len) in cases {
            match buffer.view(range) {
                Err(Error::Core(polaris_core::Error::OutOfBounds { reaches, holds, .. })) => {
                    assert_eq!((reaches, holds), (asked, len));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn copies_go_from_every_device_to_every_device() {
    let runtime = runtime();
    for (from, to) in pairs(runtime.devices()) {
        let what = format!("{} to {}", from.id(), to.id());
        let values = pattern::<i64>(600_001, 5);
        let source = from.upload(&values).unwrap();
        let target = to.allocate(DType::I64, values.len()).unwrap();
        source.copy_to(&target).unwrap();
        assert_same(&target.to_vec::<i64>().unwrap(), &values, &what);
        // A part into a part, and nothing around it.
        let target = to.upload(&[7i64; 9]).unwrap();
        source.view(3..6).unwrap().copy_to(&target.view(5..8).unwrap()).unwrap();
        let expected = [&[7; 5][..], &values[3..6], &[7]].concat();
        assert_same(&target.to_vec::<i64>().unwrap(), &expected, &what);
        source.view(1..1).unwrap().copy_to(&target.view(9..9).unwrap()).unwrap();
    }
}

fn pairs(devices: &[DeviceRef]) -> impl Iterator<Item = (&DeviceRef, &DeviceRef)> {
    devices.iter().flat_map(move |from| devices.iter().map(move |to| (from, to)))
}

#[test]
fn copies_within_a_buffer_must_not_overlap() {
    for device in runtime().devices() {
        let values: Vec<i32> = (0..100).collect();
        let buffer = device.upload(&values).unwrap();
        let view = |range| buffer.view(range).unwrap();
        view(0..50).copy_to(&view(50..100)).unwrap();
        let expected: Vec<i32> = (0..50).chain(0..50).collect();
        assert_eq!(buffer.to_vec::<i32>().unwrap(), expected);
        for (from, to) in [(0..50, 49..99), (10..20, 10..20), (1..100, 0..99)] {
            let found = view(from).copy_to(&view(to));
            assert!(matches!(found, Err(Error::BufferBusy { op: "copy", .. })), "{found:?}");
        }
        view(5..5).copy_to(&view(5..5)).unwrap();
        assert_eq!(buffer.to_vec::<i32>().unwrap(), expected, "refused copies change nothing");
    }
}

fn fills<T: Element>(device: &DeviceRef) {
    let value = pattern::<T>(1, 0xA5)[0];
    // Odd offsets and lengths; the elements around must stay.
    for (start, end) in [(0, 1023), (0, 1), (1, 2), (3, 3), (3, 1000), (1022, 1023)] {
        let mut values = pattern::<T>(1023, 4);
        let buffer = device.upload(&values).unwrap();
        buffer.view(start..end).unwrap().fill(value).unwrap();
        values[start..end].fill(value);
        let what = format!("{start}..{end} of {} on {}", T::DTYPE, device.id());
        assert_same(&buffer.to_vec::<T>().unwrap(), &values, &what);
    }
}

#[test]
fn a_fill_sets_its_elements_and_no_others() {
    for device in runtime().devices() {
        for_every_dtype!(fills(device));
    }
}

#[track_caller]
fn assert_dtypes<T: std::fmt::Debug>(found: polaris_runtime::Result<T>, wrong: DType) {
    match found {
        Err(Error::Core(polaris_core::Error::DTypeMismatch { lhs, rhs, .. })) => {
            assert_eq!((lhs, rhs), (DType::F32, wrong));
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_lengths<T: std::fmt::Debug>(found: polaris_runtime::Result<T>, fits: usize, was: usize) {
    match found {
        Err(Error::LengthMismatch { expected, found, .. }) => {
            assert_eq!((expected, found), (fits, was));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wrong_type_or_length_is_refused() {
    let runtime = runtime();
    for (device, other) in pairs(runtime.devices()) {
        let buffer = device.upload(&[1.0f32, 2.0, 3.0]).unwrap();
        // i32 has the same size: only the type itself tells them apart.
        assert_dtypes(buffer.write(&[1i32, 2, 3]), DType::I32);
        assert_dtypes(buffer.to_vec::<i32>(), DType::I32);
        assert_dtypes(buffer.read_into(&mut [0u8; 12]), DType::U8);
        assert_dtypes(buffer.fill(1i64), DType::I64);
        assert_dtypes(buffer.copy_to(&other.upload(&[1i32, 2, 3]).unwrap()), DType::I32);
        assert_lengths(buffer.write(&[1.0f32; 2]), 3, 2);
        assert_lengths(buffer.write::<f32>(&[]), 3, 0);
        assert_lengths(buffer.read_into(&mut [0.0f32; 4]), 3, 4);
        assert_lengths(buffer.copy_to(&other.upload(&[0.0f32; 5]).unwrap()), 5, 3);
        assert_eq!(buffer.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    }
}

#[test]
fn a_number_of_elements_beyond_the_address_space_is_refused() {
    for device in runtime().devices() {
        for len in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 16 + 1] {
            let found = device.allocate(DType::F64, len);
            assert!(
                matches!(found, Err(Error::Core(polaris_core::Error::TooLarge { .. }))),
                "{found:?}"
            );
        }
    }
}

#[test]
fn a_buffer_outlives_its_runtime() {
    let runtime = runtime();
    let values = pattern::<u8>(1000, 1);
    let buffers: Vec<Buffer> =
        runtime.devices().iter().map(|device| device.upload(&values).unwrap()).collect();
    drop(runtime);
    for buffer in buffers {
        assert_same(&buffer.to_vec::<u8>().unwrap(), &values, "after the runtime");
    }
}
