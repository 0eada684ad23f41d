	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx803"
	.protected	pick_f32                ; -- Begin function pick_f32
	.globl	pick_f32
	.type	pick_f32,@function
pick_f32:                               ; @pick_f32
	.section	.rodata,#alloc
	.amdhsa_kernel pick_f32
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	pick_f32, .Lfunc_end0-pick_f32
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 4040
; NumSgprs: 32
; NumVgprs: 20
; ScratchSize: 260
; LDSByteSize: 0 bytes/workgroup (compile time only)
; Occupancy: 10
	.section	".note.GNU-stack"
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .is_const:       true
        .offset:         0
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
      - .address_space:  global
        .is_const:       true
        .offset:         8
        .size:           8
        .type_name:      'int*'
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         16
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           pick_f32
    .private_segment_fixed_size: 260
    .sgpr_count:     32
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     20
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx803
amdhsa.version:
  - 1
  - 1
...

	.end_amdgpu_metadata
