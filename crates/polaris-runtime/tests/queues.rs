//! Several queues of one device: events order their work, time stamps follow it, and a block that
//! left its queue is not handed out again while a foreign queue may still use it.

mod common;

use std::sync::Arc;

use common::{add_kernel, assert_same, opencl_devices, pattern, runtime};
use polaris_core::DType;
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, Error, Queue, QueueOptions};

type QueueRef = Arc<dyn Queue>;

fn new_queue(device: &DeviceRef) -> QueueRef {
    device.new_queue(QueueOptions::default()).unwrap()
}

fn profiling_queue(device: &DeviceRef) -> QueueRef {
    device.new_queue(QueueOptions { profiling: true }).unwrap()
}

fn ints(device: &DeviceRef, queue: &QueueRef, len: usize) -> Buffer {
    Buffer::allocate(device, queue, DType::I32, len).unwrap()
}

/// Enqueues `y = x + by` on a queue of the buffers' OpenCL device.
fn enqueue_add(queue: &QueueRef, x: &Buffer, y: &Buffer, by: i32) -> polaris_runtime::Event {
    let device = x.device().as_opencl().unwrap();
    let kernel = add_kernel(device);
    let launch = device.launch_on(queue.as_ref(), &kernel).unwrap();
    launch.buffer(x, 0).buffer(y, 0).value(by).run_with_event(&[x.len()], &[1]).unwrap()
}

#[test]
fn every_queue_has_an_identity() {
    for device in runtime().devices() {
        let (a, b) = (new_queue(device), new_queue(device));
        assert_ne!(a.id(), b.id());
        assert_ne!(a.id(), device.queue().id());
        assert_eq!(ints(device, &a, 3).queue().id(), a.id());
        assert_eq!(device.allocate(DType::I32, 3).unwrap().queue().id(), device.queue().id());
    }
}

#[test]
fn a_finished_queue_has_no_work_left() {
    for device in runtime().devices() {
        for queue in [device.queue(), &new_queue(device), &profiling_queue(device)] {
            queue.finish().unwrap();
            let buffer = ints(device, queue, 100_000);
            let before = queue.record().unwrap();
            buffer.fill(5i32).unwrap();
            let after = queue.record().unwrap();
            queue.flush().unwrap();
            queue.finish().unwrap();
            assert!(before.is_complete().unwrap() && after.is_complete().unwrap());
            after.wait().unwrap();
            after.clone().wait().unwrap();
            assert_eq!(buffer.to_vec::<i32>().unwrap(), [5; 100_000]);
        }
    }
}

#[test]
fn an_event_that_was_waited_for_is_complete() {
    for device in runtime().devices() {
        let queue = new_queue(device);
        let buffer = ints(device, &queue, 1000);
        for round in 0..50 {
            buffer.fill(round).unwrap();
            let event = queue.record().unwrap();
            event.wait().unwrap();
            assert!(event.is_complete().unwrap());
        }
        // Waiting for what is past, from whatever queue, holds nobody.
        let past = queue.record().unwrap();
        drop((buffer, queue));
        device.queue().wait_for(&past).unwrap();
        past.wait().unwrap();
        device.queue().finish().unwrap();
    }
}

#[test]
fn copies_between_queues_happen_in_order() {
    for device in runtime().devices() {
        let queues = [device.queue().clone(), new_queue(device), profiling_queue(device)];
        let buffers = queues.each_ref().map(|queue| ints(device, queue, 200_001));
        for round in 0..10 {
            let values = pattern::<i32>(200_001, round);
            buffers[0].write(&values).unwrap();
            buffers[0].copy_to(&buffers[1]).unwrap();
            buffers[1].copy_to(&buffers[2]).unwrap();
            assert_same(&buffers[2].to_vec::<i32>().unwrap(), &values, "after two hops");
            for queue in &queues {
                queue.finish().unwrap();
            }
        }
    }
}

#[test]
fn copies_go_between_devices_from_and_to_any_queue() {
    let runtime = runtime();
    let values = pattern::<i32>(50_001, 1);
    for from in runtime.devices() {
        for to in runtime.devices() {
            let source = ints(from, &new_queue(from), values.len());
            let target = ints(to, &new_queue(to), values.len());
            source.write(&values).unwrap();
            source.copy_to(&target).unwrap();
            to.queue().wait_for(&source.queue().record().unwrap()).unwrap();
            assert_same(&target.to_vec::<i32>().unwrap(), &values, "copied");
        }
    }
}

#[test]
fn an_event_holds_the_work_of_another_queue() {
    const LEN: usize = 20_000;
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let (a, b) = (new_queue(device), new_queue(device));
        let x = ints(device, &a, LEN);
        let y = ints(device, &b, LEN);
        x.fill(0i32).unwrap();
        y.fill(0i32).unwrap();
        // Each round reads what the other queue wrote: one slip and the sum is wrong.
        for _ in 0..30 {
            b.wait_for(&a.record().unwrap()).unwrap();
            enqueue_add(&b, &x, &y, 1);
            a.wait_for(&b.record().unwrap()).unwrap();
            enqueue_add(&a, &y, &x, 1);
        }
        assert_eq!(x.to_vec::<i32>().unwrap(), [60; LEN]);
        b.finish().unwrap();
        assert_eq!(y.to_vec::<i32>().unwrap(), [59; LEN]);
    }
}

#[test]
fn queues_of_one_device_are_used_by_several_threads() {
    for device in runtime().devices() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let queue = new_queue(device);
                    let (x, y) = (ints(device, &queue, 3000), ints(device, &queue, 3000));
                    for round in 0..40 {
                        let values = pattern::<i32>(3000, thread * 64 + round);
                        x.write(&values).unwrap();
                        x.copy_to(&y).unwrap();
                        assert_same(&y.to_vec::<i32>().unwrap(), &values, "a thread's own");
                    }
                });
            }
        });
    }
}

#[test]
fn a_profiling_queue_keeps_the_time_of_each_command() {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let queue = profiling_queue(device);
        let (x, y) = (ints(device, &queue, 100_000), ints(device, &queue, 100_000));
        x.fill(1i32).unwrap();
        let events = [(); 5].map(|()| enqueue_add(&queue, &x, &y, 1));
        queue.finish().unwrap();
        let stamps = events.map(|event| event.timestamps().expect("a profiling queue has stamps"));
        for stamp in &stamps {
            assert!(stamp.queued <= stamp.started && stamp.started <= stamp.ended, "{stamp:?}");
            assert_eq!(stamp.duration().as_nanos(), u128::from(stamp.ended - stamp.started));
        }
        for pair in stamps.windows(2) {
            assert!(pair[0].ended <= pair[1].started, "in order, one after the other: {pair:?}");
        }
        let plain = enqueue_add(device.queue(), &x, &y, 1);
        plain.wait().unwrap();
        assert_eq!(plain.timestamps(), None, "a plain queue keeps none");
    }
}

#[test]
fn the_cpus_events_are_past_and_have_no_time_stamps() {
    let runtime = runtime();
    let queue = profiling_queue(runtime.cpu());
    let event = queue.record().unwrap();
    assert!(event.is_complete().unwrap());
    assert_eq!(event.timestamps(), None);
}

/// The bytes the allocator keeps after this buffer is dropped, less those it kept before.
fn cached_by_dropping(buffer: Buffer) -> i64 {
    let device = Arc::clone(buffer.device());
    let before = device.allocator().memory_use();
    drop(buffer);
    let after = device.allocator().memory_use();
    assert!(after.used < before.used);
    after.cached as i64 - before.cached as i64
}

#[test]
fn a_block_that_stayed_on_its_queue_is_used_again_there_only() {
    for device in runtime().devices() {
        let (a, b) = (new_queue(device), new_queue(device));
        let buffer = ints(device, &a, 1024);
        buffer.fill(1i32).unwrap();
        assert_eq!(cached_by_dropping(buffer), 4096);
        let other = ints(device, &b, 1024);
        assert_eq!(device.allocator().memory_use().cached, 4096, "not for another queue");
        let again = ints(device, &a, 1024);
        assert_eq!(device.allocator().memory_use().cached, 0);
        drop((other, again));
    }
}

#[test]
fn a_block_that_left_its_queue_is_not_used_again() {
    for device in runtime().devices() {
        let (a, b) = (new_queue(device), new_queue(device));
        let (source, target) = (ints(device, &a, 1024), ints(device, &b, 1024));
        source.view(0..8).unwrap().copy_to(&target.view(8..16).unwrap()).unwrap();
        assert_eq!(cached_by_dropping(source), 0, "b may still read it");
        assert_eq!(cached_by_dropping(target), 4096, "only its own queue wrote it");
    }
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let (a, b) = (new_queue(device), new_queue(device));
        let (x, y) = (ints(device, &a, 1024), ints(device, &b, 1024));
        x.fill(1i32).unwrap();
        b.wait_for(&a.record().unwrap()).unwrap();
        enqueue_add(&b, &x, &y, 1);
        assert_eq!(cached_by_dropping(x), 0, "a kernel on b may still read it");
        assert_eq!(y.to_vec::<i32>().unwrap(), [2; 1024]);
        assert_eq!(cached_by_dropping(y), 4096);
    }
}

#[test]
fn an_event_of_another_runtime_is_waited_for() {
    let (here, there) = (runtime(), runtime());
    for (a, b) in here.devices().iter().zip(there.devices()) {
        let buffer = a.upload(&pattern::<u8>(1 << 20, 1)).unwrap();
        buffer.fill(3u8).unwrap();
        let event = a.queue().record().unwrap();
        b.queue().wait_for(&event).unwrap();
        assert!(event.is_complete().unwrap(), "an event of another context means a wait here");
    }
}

#[test]
fn a_queue_launches_only_kernels_of_its_own_device() {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let kernel = add_kernel(device.as_opencl().unwrap());
        let found = device.as_opencl().unwrap().launch_on(runtime.cpu().queue().as_ref(), &kernel);
        assert!(matches!(found.err(), Some(Error::DeviceMismatch { .. })));
    }
}
