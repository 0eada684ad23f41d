	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx803"
	.protected	wide_f32                ; -- Begin function wide_f32
	.globl	wide_f32
	.type	wide_f32,@function
wide_f32:                               ; @wide_f32
	.section	.rodata,#alloc
	.amdhsa_kernel wide_f32
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	wide_f32, .Lfunc_end0-wide_f32
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 111048
; NumSgprs: 18
; NumVgprs: 64
; ScratchSize: 1312
; LDSByteSize: 0 bytes/workgroup (compile time only)
; Occupancy: 4
	.section	".note.GNU-stack"
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .is_const:       true
        .offset:         0
        .size:           8
        .type_name:      'float4*'
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .type_name:      'float4*'
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 1024
    .name:           wide_f32
    .private_segment_fixed_size: 1312
    .reqd_workgroup_size:
      - 1024
      - 1
      - 1
    .sgpr_count:     18
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     64
    .vgpr_spill_count: 215
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx803
amdhsa.version:
  - 1
  - 1
...

	.end_amdgpu_metadata
