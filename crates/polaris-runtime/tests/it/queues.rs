//! Several queues of one device: events order their work, and time stamps follow it.

use crate::common::{
    Enqueue, QueueRef, add_kernel, any_runtime, assert_same, enqueue_add, ints, new_queue,
    opencl_devices, pattern, runtime, source,
};
use polaris_core::DType;
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, Error, QueueOptions};

fn profiling_queue(device: &DeviceRef) -> QueueRef {
    device.new_queue(QueueOptions { profiling: true, ..QueueOptions::default() }).unwrap()
}

const SLOW: &str = "
__kernel void slow(__global int *x, ulong first, uint rounds) {
    uint value = rounds;
    for (uint i = 0; i < rounds; ++i) value = value * 1664525u + (value >> 3);
    x[first] = value == 1 ? 2 : 1;
}";

/// Keeps the queue busy for tens of milliseconds, then sets the first element to 1.
fn enqueue_slow(queue: &QueueRef, x: &Buffer) {
    let device = x.device().as_opencl().unwrap();
    let kernel = device.kernel(("test slow", 0), "slow", || source("slow", &[SLOW])).unwrap();
    let launch = device.launch_on(queue.as_ref(), &kernel).unwrap();
    launch.buffer(x, 0).value(20_000_000u32).enqueue(&[1], &[1]).unwrap();
    queue.flush().unwrap();
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
            assert_same(&buffer.to_vec::<i32>().unwrap(), &[5; 100_000], "filled");
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
        assert_same(&x.to_vec::<i32>().unwrap(), &[60; LEN], "x");
        b.finish().unwrap();
        assert_same(&y.to_vec::<i32>().unwrap(), &[59; LEN], "y");
    }
}

#[test]
fn an_event_holds_back_even_quick_work() {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let (a, b) = (new_queue(device), new_queue(device));
        let (x, y) = (ints(device, &a, 1), ints(device, &b, 1));
        // Once before: drivers finish compiling at a kernel's first launch.
        enqueue_add(&b, &y, &y, 0).wait().unwrap();
        x.fill(0i32).unwrap();
        enqueue_slow(&a, &x);
        let event = a.record().unwrap();
        b.wait_for(&event).unwrap();
        enqueue_add(&b, &x, &y, 10);
        assert_eq!(y.to_vec::<i32>().unwrap(), [11]);
        assert!(event.is_complete().unwrap());
    }
}

#[test]
fn a_copy_to_another_queue_takes_what_is_there_when_it_is_asked_for() {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        let (a, b) = (new_queue(device), new_queue(device));
        let (x, y) = (ints(device, &a, 1000), ints(device, &b, 1000));
        x.fill(7i32).unwrap();
        // The other queue gets to the copy only later.
        enqueue_slow(&b, &y);
        x.copy_to(&y).unwrap();
        x.fill(0i32).unwrap();
        a.finish().unwrap();
        assert_same(&y.to_vec::<i32>().unwrap(), &[7; 1000], "as it was before the fill");
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
    let runtime = any_runtime();
    let queue = profiling_queue(runtime.cpu());
    let event = queue.record().unwrap();
    assert!(event.is_complete().unwrap());
    assert_eq!(event.timestamps(), None);
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
