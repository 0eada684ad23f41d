//! Direct access of the host to memory of the CPU: without a copy, and never two who conflict.

use crate::common::{any_runtime, assert_same, opencl_devices, pattern, runtime};
use bytes::Bytes;
use polaris_core::{DType, Element};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, Error, HostOperands, Result};

#[track_caller]
fn assert_busy<T>(found: Result<T>, what: &'static str) {
    match found {
        Err(Error::BufferBusy { by, .. }) => assert_eq!(by, what),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("access was given while the buffer is being {what}"),
    }
}

fn slices<T: Element>(device: &DeviceRef) {
    let values = pattern::<T>(1023, 6);
    let buffer = device.upload(&values).unwrap();
    assert_same(&buffer.host_slice::<T>().unwrap(), &values, "host_slice");
    let other = pattern::<T>(20, 7);
    buffer.view(3..23).unwrap().host_slice_mut::<T>().unwrap().copy_from_slice(&other);
    assert_same(&buffer.to_vec::<T>().unwrap()[3..23], &other, "written in place");
    assert_same(&buffer.to_vec::<T>().unwrap()[23..], &values[23..], "not written");
}

#[test]
fn the_host_reads_and_writes_in_place() {
    let runtime = any_runtime();
    for_every_dtype!(slices(runtime.cpu()));
    let empty = runtime.cpu().upload::<f64>(&[]).unwrap();
    assert!(empty.host_slice::<f64>().unwrap().is_empty());
    assert!(empty.host_slice_mut::<f64>().unwrap().is_empty());
}

#[test]
fn memory_of_the_cpu_begins_at_a_cache_line() {
    let runtime = any_runtime();
    for len in [1, 3, 1023, 5000] {
        let buffer = runtime.cpu().upload(&pattern::<u8>(len, 1)).unwrap();
        assert_eq!(buffer.host_slice::<u8>().unwrap().as_ptr().addr() % 64, 0, "{len}");
    }
}

#[test]
fn a_vector_becomes_a_buffer_without_a_copy() {
    let runtime = runtime();
    let before = runtime.cpu().allocator().memory_use();
    let vector = pattern::<f32>(1 << 20, 1);
    let (values, address) = (vector.clone(), vector.as_ptr());
    let buffer = Buffer::from_vec(runtime.cpu(), vector).unwrap();
    assert_eq!(buffer.host_slice::<f32>().unwrap().as_ptr(), address);
    let view = buffer.view(5..9).unwrap();
    assert_eq!(view.host_slice::<f32>().unwrap().as_ptr().addr(), address.addr() + 20);
    drop(buffer);
    assert_same(&view.to_vec::<f32>().unwrap(), &values[5..9], "the view keeps the vector");
    drop(view);
    assert_eq!(runtime.cpu().allocator().memory_use(), before, "it was never the allocator's");
    assert!(Buffer::from_vec::<i8>(runtime.cpu(), Vec::new()).unwrap().is_empty());
    for device in opencl_devices(&runtime) {
        let buffer = Buffer::from_vec(device, values.clone()).unwrap();
        assert_same(&buffer.to_vec::<f32>().unwrap(), &values, "uploaded");
    }
}

#[test]
fn a_writer_excludes_everyone() {
    let runtime = runtime();
    let buffer = runtime.cpu().upload(&[1i32, 2, 3, 4]).unwrap();
    let view = buffer.view(0..2).unwrap();
    let target = runtime.cpu().upload(&[0i32; 2]).unwrap();
    let mut writer = buffer.host_slice_mut::<i32>().unwrap();
    assert_busy(buffer.host_slice::<i32>(), "written");
    assert_busy(view.host_slice_mut::<i32>(), "written");
    assert_busy(buffer.to_vec::<i32>(), "written");
    assert_busy(buffer.write(&[0i32; 4]), "written");
    assert_busy(view.fill(0i32), "written");
    assert_busy(view.start_read(), "written");
    assert_busy(view.copy_to(&target), "written");
    assert_busy(target.copy_to(&view), "written");
    for device in opencl_devices(&runtime) {
        assert_busy(view.copy_to(&device.upload(&[0i32; 2]).unwrap()), "written");
        assert_busy(device.upload(&[0i32; 2]).unwrap().copy_to(&view), "written");
    }
    writer[3] = 40;
    drop(writer);
    assert_eq!(buffer.to_vec::<i32>().unwrap(), [1, 2, 3, 40]);
    view.copy_to(&target).unwrap();
    target.write(&[5i32, 6]).expect("refused access must not stay registered");
    target.copy_to(&view).unwrap();
    assert_eq!(*buffer.host_slice::<i32>().unwrap(), [5, 6, 3, 40]);
}

#[test]
fn readers_share_and_exclude_writers() {
    let runtime = any_runtime();
    let buffer = runtime.cpu().upload(&[1u8, 2, 3]).unwrap();
    let target = runtime.cpu().upload(&[0u8; 3]).unwrap();
    let (first, second) = (buffer.host_slice::<u8>().unwrap(), buffer.view(1..3).unwrap());
    let second = second.host_slice::<u8>().unwrap();
    assert_eq!((&*first, &*second), (&[1, 2, 3][..], &[2, 3][..]));
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [1, 2, 3]);
    buffer.copy_to(&target).unwrap();
    drop(first);
    assert_busy(buffer.host_slice_mut::<u8>(), "read");
    assert_busy(buffer.write(&[0u8; 3]), "read");
    assert_busy(buffer.fill(0u8), "read");
    assert_busy(target.copy_to(&buffer), "read");
    drop(second);
    buffer.host_slice_mut::<u8>().unwrap()[0] = 9;
    assert_eq!(buffer.to_vec::<u8>().unwrap(), [9, 2, 3]);
}

#[test]
fn a_wrong_type_is_refused_and_leaves_no_trace() {
    let runtime = any_runtime();
    let buffer = runtime.cpu().upload(&[1.0f32]).unwrap();
    let wrong = polaris_core::Error::DTypeMismatch {
        op: "host_slice",
        lhs: polaris_core::DType::F32,
        rhs: polaris_core::DType::I32,
    };
    assert!(matches!(buffer.host_slice::<i32>(), Err(Error::Core(error)) if error == wrong));
    assert!(matches!(buffer.host_slice_mut::<i32>(), Err(Error::Core(_))));
    buffer.host_slice_mut::<f32>().unwrap()[0] = 2.0;
}

#[test]
fn memory_of_an_opencl_device_is_not_the_hosts() {
    let runtime = runtime();
    let host = runtime.cpu().upload(&[0.0f32; 3]).unwrap();
    for device in opencl_devices(&runtime) {
        let buffer = device.upload(&[1.0f32, 2.0, 3.0]).unwrap();
        let id = device.id();
        let named = |error: Option<Error>| matches!(error, Some(Error::NotHostMemory { device }) if device == id);
        assert!(named(buffer.host_slice::<f32>().err()));
        assert!(named(buffer.host_slice_mut::<f32>().err()));
        assert!(named(HostOperands::new("test", &[&buffer], &host).err()));
        assert!(named(HostOperands::new("test", &[&host], &buffer).err()));
        assert_eq!(buffer.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0], "refusal holds no access");
    }
    host.fill(1.0f32).unwrap();
}

#[test]
fn operands_are_held_while_they_are_used_and_no_longer() {
    let runtime = any_runtime();
    let [a, b, out] = [1i32, 2, 3].map(|value| runtime.cpu().upload(&[value; 4]).unwrap());
    let inputs = [&a, &b, &a];
    let operands = HostOperands::new("test", &inputs, &out).unwrap();
    assert_eq!(operands.input(0), operands.input(2));
    assert_ne!(operands.output().cast_const(), operands.input(1));
    assert_busy(a.write(&[0i32; 4]), "read");
    assert_busy(out.to_vec::<i32>(), "written");
    assert_eq!(b.to_vec::<i32>().unwrap(), [2; 4], "readers share");
    drop(operands);
    // The second input is busy: what was registered before it must be released.
    let writer = b.host_slice_mut::<i32>().unwrap();
    assert_busy(HostOperands::new("test", &inputs, &out), "written");
    drop(writer);
    for buffer in [&a, &b, &out] {
        buffer.fill(0i32).unwrap();
    }
    // In-place work: an input that is the output's own block, here through views.
    let (left, right) = (out.view(0..2).unwrap(), out.view(2..4).unwrap());
    let inputs = [&left, &a];
    let operands = HostOperands::new("test", &inputs, &right).unwrap();
    assert_eq!(operands.output().addr(), operands.input(0).addr() + 8);
    drop(operands);
    out.fill(1i32).unwrap();
}

#[test]
fn threads_never_see_half_a_write() {
    let runtime = any_runtime();
    let buffer = runtime.cpu().upload(&[0i32; 4096]).unwrap();
    let whole = |values: &[i32]| values.iter().all(|&value| value == values[0]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let buffer = &buffer;
            scope.spawn(move || {
                for round in 0..200 {
                    if let Ok(mut values) = buffer.host_slice_mut::<i32>() {
                        values.fill(thread * 1000 + round);
                    }
                    if let Ok(values) = buffer.host_slice::<i32>() {
                        assert!(whole(&values));
                    }
                }
            });
        }
    });
    buffer.fill(1i32).expect("all guards are gone");
}

#[test]
fn shared_bytes_are_read_where_they_are_and_never_written() {
    let runtime = runtime();
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let shared = Bytes::from(bytemuck::cast_slice::<f32, u8>(&values).to_vec());
    for device in runtime.devices() {
        let buffer = Buffer::from_shared(device, DType::F32, shared.clone()).unwrap();
        assert_eq!(buffer.to_vec::<f32>().unwrap(), values);
    }
    let on_cpu = Buffer::from_shared(runtime.cpu(), DType::U8, shared.clone()).unwrap();
    assert_eq!(on_cpu.host_slice::<u8>().unwrap().as_ptr(), shared.as_ptr());
    assert!(matches!(on_cpu.fill(0u8), Err(Error::BufferBusy { .. })));
    assert!(matches!(on_cpu.host_slice_mut::<u8>().err(), Some(Error::BufferBusy { .. })));
    // What is not aligned for its type is copied.
    let odd = Buffer::from_shared(runtime.cpu(), DType::U8, shared.slice(1..5)).unwrap();
    assert_eq!(odd.to_vec::<u8>().unwrap(), &shared[1..5]);
    let refused = Buffer::from_shared(runtime.cpu(), DType::F32, shared.slice(..6));
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
}
