	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx803"
	.protected	scale_f32_plain         ; -- Begin function scale_f32_plain
	.globl	scale_f32_plain
	.type	scale_f32_plain,@function
scale_f32_plain:                        ; @scale_f32_plain
	.section	.rodata,#alloc
	.amdhsa_kernel scale_f32_plain
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.size	scale_f32_plain, .Lfunc_end0-scale_f32_plain
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 380
; NumSgprs: 12
; NumVgprs: 7
; ScratchSize: 0
; LDSByteSize: 1024 bytes/workgroup (compile time only)
; Occupancy: 10
	.text
	.protected	copy_f32                ; -- Begin function copy_f32
	.globl	copy_f32
	.type	copy_f32,@function
copy_f32:                               ; @copy_f32
	.section	.rodata,#alloc
	.amdhsa_kernel copy_f32
	.end_amdhsa_kernel
	.text
.Lfunc_end1:
	.size	copy_f32, .Lfunc_end1-copy_f32
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 112
; NumSgprs: 12
; NumVgprs: 4
; ScratchSize: 0
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
        .offset:         8
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
      - .offset:         16
        .size:           4
        .type_name:      float
        .value_kind:     by_value
      - .offset:         20
        .size:           4
        .type_name:      int
        .value_kind:     by_value
    .group_segment_fixed_size: 1024
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           scale_f32_plain
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 16
      - 16
      - 1
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     7
    .vgpr_spill_count: 0
    .wavefront_size: 64
  - .args:
      - .address_space:  global
        .is_const:       true
        .offset:         0
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           copy_f32
    .private_segment_fixed_size: 0
    .sgpr_count:     12
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     4
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx803
amdhsa.version:
  - 1
  - 1
...

	.end_amdgpu_metadata
