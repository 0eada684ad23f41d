//! Events of OpenCL.

use std::any::Any;

use cl3::event::{
    CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, CL_PROFILING_COMMAND_END,
    CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_START, get_event_info,
    get_event_profiling_info, release_event,
};
use cl3::info_type::InfoType;
use cl3::types::{cl_event, cl_int};

use crate::opencl::failed;
use crate::queue::{Completion, Timestamps};
use crate::{DeviceId, Result};

/// One `cl_event`, released when dropped. Its command has been flushed.
#[derive(Debug)]
pub(super) struct ClEvent {
    raw: cl_event,
    device: DeviceId,
    context: usize,
}

// SAFETY: OpenCL events may be used from any thread.
unsafe impl Send for ClEvent {}
// SAFETY: as above.
unsafe impl Sync for ClEvent {}

impl ClEvent {
    pub fn new(raw: cl_event, device: DeviceId, context: cl3::types::cl_context) -> Self {
        Self { raw, device, context: context.addr() }
    }

    pub fn raw(&self) -> cl_event {
        self.raw
    }

    pub fn is_of(&self, context: cl3::types::cl_context) -> bool {
        self.context == context.addr()
    }

    fn status(&self) -> Result<cl_int> {
        let info = get_event_info(self.raw, CL_EVENT_COMMAND_EXECUTION_STATUS);
        let status = match info.map_err(failed(self.device, "clGetEventInfo"))? {
            InfoType::Int(status) => status,
            _ => CL_COMPLETE,
        };
        // A negative status is the error that ended the command.
        if status < 0 { Err(failed(self.device, "a command")(status)) } else { Ok(status) }
    }
}

impl Completion for ClEvent {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.status()? == CL_COMPLETE)
    }

    fn timestamps(&self) -> Option<Timestamps> {
        let stamp = |what| match get_event_profiling_info(self.raw, what) {
            Ok(InfoType::Ulong(time)) => Some(time),
            _ => None,
        };
        Some(Timestamps {
            queued: stamp(CL_PROFILING_COMMAND_QUEUED)?,
            started: stamp(CL_PROFILING_COMMAND_START)?,
            ended: stamp(CL_PROFILING_COMMAND_END)?,
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for ClEvent {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        let _ = unsafe { release_event(self.raw) };
    }
}
