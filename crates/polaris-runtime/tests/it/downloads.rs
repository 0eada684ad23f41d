//! Downloads that are started now and waited for later.

use crate::common::{self, assert_same, child, is_child, opencl_devices, pattern, runtime, tell};
use polaris_core::{DType, Element};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, PendingDownload, QueueOptions};

fn reads<T: Element>(device: &DeviceRef) {
    for len in [0, 1, 3, 1023, (4 << 20) / size_of::<T>() + 13] {
        let values = pattern::<T>(len, 1);
        let buffer = device.upload(&values).unwrap();
        let bytes = buffer.start_read().unwrap().wait().unwrap();
        let what = format!("{len} of {} on {}", T::DTYPE, device.id());
        assert_same(&bytes, bytemuck::cast_slice(&values), &what);
    }
}

#[test]
fn a_started_read_brings_the_values() {
    for device in runtime().devices() {
        for_every_dtype!(reads(device));
    }
}

#[test]
fn a_view_is_read_alone() {
    for device in runtime().devices() {
        let values = pattern::<u8>(1000, 1);
        let buffer = device.upload(&values).unwrap();
        let bytes = buffer.view(3..998).unwrap().start_read().unwrap().wait().unwrap();
        assert_same(&bytes, &values[3..998], "the view");
        let nothing = buffer.view(1000..1000).unwrap().start_read().unwrap();
        assert!(nothing.is_complete().unwrap());
        assert!(nothing.wait().unwrap().is_empty());
    }
}

#[test]
fn a_started_read_sees_what_was_there_when_it_was_started() {
    for device in runtime().devices() {
        let values = pattern::<i32>(100_000, 1);
        let buffer = device.upload(&values).unwrap();
        let pending = buffer.start_read().unwrap();
        buffer.fill(0i32).unwrap();
        let after = buffer.start_read().unwrap();
        assert_same(&pending.wait().unwrap(), bytemuck::cast_slice(&values), "before the fill");
        assert_same(&after.wait().unwrap(), &[0; 400_000], "after the fill");
    }
}

#[test]
fn it_completes_without_being_waited_for() {
    for device in runtime().devices() {
        let buffer = device.upload(&pattern::<u8>(1 << 20, 1)).unwrap();
        let pending = buffer.start_read().unwrap();
        device.queue().finish().unwrap();
        assert!(pending.is_complete().unwrap(), "everything before `finish` is done");
    }
}

#[test]
fn a_download_that_nobody_waits_for_is_dropped_in_peace() {
    for device in runtime().devices() {
        let values = pattern::<u8>((4 << 20) + 13, 1);
        let buffer = device.upload(&values).unwrap();
        for _ in 0..20 {
            drop(buffer.start_read().unwrap());
        }
        let pending = buffer.start_read().unwrap();
        assert_same(&buffer.to_vec::<u8>().unwrap(), &values, "another read meanwhile");
        // The buffer's block goes back to the allocator and is used again before the wait.
        drop(buffer);
        let next = device.upload(&vec![0u8; values.len()]).unwrap();
        assert_same(&pending.wait().unwrap(), &values, "after the buffer is gone");
        drop(next);
    }
}

#[test]
fn many_downloads_are_under_way_at_once() {
    for device in runtime().devices() {
        let values: Vec<Vec<i64>> = (0..32).map(|seed| pattern(5000, seed)).collect();
        let buffers: Vec<Buffer> = values.iter().map(|v| device.upload(v).unwrap()).collect();
        let pending: Vec<PendingDownload> =
            buffers.iter().map(|buffer| buffer.start_read().unwrap()).collect();
        drop(buffers);
        // Waited for on another thread and in the reverse order.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (pending, values) in pending.into_iter().zip(&values).rev() {
                    let bytes = pending.wait().unwrap();
                    assert_same(&bytes, bytemuck::cast_slice(values), "one of many");
                }
            });
        });
    }
}

/// A process of its own: what goes wrong here is the use of an object that OpenCL has freed, and
/// that may end the process.
#[test]
fn child_waits_after_the_queue_is_gone() {
    if !is_child() {
        return;
    }
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        for round in 0..50 {
            let values = pattern::<u8>(100_000, round);
            let queue = device.new_queue(QueueOptions::default()).unwrap();
            let buffer = Buffer::allocate(device, &queue, DType::U8, values.len()).unwrap();
            buffer.write(&values).unwrap();
            let pending = [buffer.start_read().unwrap(), buffer.start_read().unwrap()];
            drop((buffer, queue));
            // What OpenCL makes next may take the place of what it freed.
            let next = device.new_queue(QueueOptions::default()).unwrap();
            let [first, second] = pending;
            assert_same(&first.wait().unwrap(), &values, "waited for after its queue");
            drop(second);
            next.finish().unwrap();
        }
    }
    let pending: Vec<PendingDownload> = runtime
        .devices()
        .iter()
        .map(|d| d.upload(&[7u8; 100]).unwrap().start_read().unwrap())
        .collect();
    drop(runtime);
    for pending in pending {
        assert_eq!(pending.wait().unwrap(), [7; 100], "waited for after its runtime");
    }
    tell(&serde_json::json!("survived"));
}

#[test]
fn a_download_outlives_its_queue_and_its_runtime() {
    if opencl_devices(&runtime()).is_empty() {
        return;
    }
    let output = child("downloads::child_waits_after_the_queue_is_gone").output().unwrap();
    assert_eq!(common::answer(&output), "survived");
    assert!(output.status.success());
}
