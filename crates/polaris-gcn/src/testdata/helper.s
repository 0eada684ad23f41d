	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx803"
	.hidden	square                          ; -- Begin function square
	.globl	square
	.type	square,@function
square:                                 ; @square
.Lfunc_end0:
	.size	square, .Lfunc_end0-square
                                        ; -- End function
	.section	.AMDGPU.csdata
; Function info:
; codeLenInByte = 12
; NumSgprs: 32
; NumVgprs: 1
; ScratchSize: 0
	.text
	.protected	square_f32              ; -- Begin function square_f32
	.globl	square_f32
	.type	square_f32,@function
square_f32:                             ; @square_f32
	.section	.rodata,#alloc
	.amdhsa_kernel square_f32
	.end_amdhsa_kernel
	.text
.Lfunc_end1:
	.size	square_f32, .Lfunc_end1-square_f32
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 180
; NumSgprs: 39
; NumVgprs: 5
; ScratchSize: 0
; LDSByteSize: 0 bytes/workgroup (compile time only)
; Occupancy: 10
	.text
	.protected	nothing                 ; -- Begin function nothing
	.globl	nothing
	.type	nothing,@function
nothing:                                ; @nothing
	.section	.rodata,#alloc
	.amdhsa_kernel nothing
	.end_amdhsa_kernel
	.text
.Lfunc_end2:
	.size	nothing, .Lfunc_end2-nothing
                                        ; -- End function
	.section	.AMDGPU.csdata
; Kernel info:
; codeLenInByte = 4
; NumSgprs: 0
; NumVgprs: 0
; ScratchSize: 0
; LDSByteSize: 0 bytes/workgroup (compile time only)
; Occupancy: 10
	.section	".note.GNU-stack"
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .type_name:      'float*'
        .value_kind:     global_buffer
      - .address_space:  local
        .offset:         8
        .pointee_align:  4
        .size:           4
        .type_name:      'float*'
        .value_kind:     dynamic_shared_pointer
    .group_segment_fixed_size: 0
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           square_f32
    .private_segment_fixed_size: 0
    .sgpr_count:     39
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     5
    .vgpr_spill_count: 0
    .wavefront_size: 64
  - .args:           []
    .group_segment_fixed_size: 0
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           nothing
    .private_segment_fixed_size: 0
    .sgpr_count:     0
    .sgpr_spill_count: 0
    .uses_dynamic_stack: false
    .vgpr_count:     0
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx803
amdhsa.version:
  - 1
  - 1
...

	.end_amdgpu_metadata
