/* The C ABI between Epilogue and the kernels of a package: all that a package is built against. Plain C, no
 * C++ type and no exception crosses it, and nothing here depends on the rest of Epilogue. docs/packages.md
 * walks through making a package.
 *
 * A package's library exports one function, ep_kernel_package(). Epilogue calls it once after loading, then
 * calls the kernels from any thread, also from several at once: kernels keep no state between calls that they
 * do not guard. Tensors are DLPack's. */
#ifndef EPILOGUE_KERNEL_ABI_H_
#define EPILOGUE_KERNEL_ABI_H_

#include <stddef.h>
#include <stdint.h>

/* The layout of DLPack 1.1, under its own include guard: whichever header comes first defines it. */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U
} DLDataTypeCode;

typedef struct {
  uint8_t code; /* DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;     /* in elements */
  uint64_t byte_offset; /* added to data */
} DLTensor;

typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
};

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when anything below changes. Epilogue loads packages of its own version and of older ones, and
 * refuses those of a newer one. Fields are only ever added at the end of EpHost and EpCall. */
#define EP_KERNEL_ABI_VERSION 1u

#define EP_OK 0 /* done */
#define EP_UNSUPPORTED \
  1                 /* only from prepare(): this call is not for this kernel, for the reason in `error` */
#define EP_FAILED 2 /* for the reason in `error`; the outputs hold nothing of meaning */

/* What Epilogue lends to a kernel for the time of a call. */
typedef struct EpHost {
  uint32_t abi_version; /* Epilogue's, not below the package's */
  /* Calls body(context, begin, end) over [0, count) in pieces of about `grain` or more on the threads that
   * Epilogue shares with its own kernels, and returns when all are done. The body must not throw, nor call
   * parallel_for. For kernels of the CPU: threads of their own would compete with Epilogue's. */
  void (*parallel_for)(int64_t count, int64_t grain, void (*body)(void* context, int64_t begin, int64_t end),
                       void* context);
} EpHost;

/* One call of a kernel. Everything in it belongs to Epilogue and ends with the call, but for the memory of
 * the tensors and the workspace, which live until the work put on `stream` has ended. */
typedef struct EpCall {
  const EpHost* host;
  const DLTensor* inputs; /* read only; never overlap the outputs */
  DLTensor* outputs;      /* allocated with shape and dtype set; every element is to be written */
  int32_t input_count, output_count;
  void* stream;    /* cudaStream_t of a kernel for cuda, NULL on the CPU. Do not synchronize it */
  void* workspace; /* what prepare() asked for, aligned to 64 bytes, its contents undefined */
  uint64_t workspace_bytes;
  char* error; /* where the reason of a status other than EP_OK goes: one sentence, ended by NUL */
  uint64_t error_bytes;
} EpCall;

/* One kernel, of one op and one dtype. Which inputs and outputs an op has:
 *   gelu_tanh_mul, gelu_mul, silu_mul    inputs gate, up; output activation(gate) * up, computed in f32 or
 *                                        better and rounded once. All three have one dtype and one shape and
 *                                        are row-major without gaps. No dimension is of size 0. Pointers are
 *                                        aligned to the element alone. */
typedef struct EpKernel {
  const char* op;   /* one of the names above, and of the manifest's ops */
  DLDataType dtype; /* of inputs and output */
  const char* name; /* as profiles show it: docs/kernel-names.md */
  /* Called before run() with the same call, but no workspace: sets *workspace_bytes (0 beforehand), or
   * returns EP_UNSUPPORTED. NULL: every call that the manifest allows is accepted and needs no workspace. */
  int32_t (*prepare)(const EpCall* call, uint64_t* workspace_bytes);
  /* Does the work, or puts it on the stream. What a kernel without prepare() puts there may be recorded once
   * and launched again for the same tensors without calling run(). */
  int32_t (*run)(const EpCall* call);
} EpKernel;

typedef struct EpPackage {
  uint32_t abi_version; /* EP_KERNEL_ABI_VERSION of the header it was built with */
  uint32_t version;     /* the manifest's */
  const char* name;     /* the manifest's: "epilogue/geglu" */
  const EpKernel* kernels;
  uint64_t kernel_count;
} EpPackage;

#if defined(__GNUC__)
#define EP_EXPORT __attribute__((visibility("default")))
#else
#define EP_EXPORT
#endif

/* The package's only export: its kernels, in memory that lives as long as the library, or NULL when it cannot
 * work with a host of this version. */
EP_EXPORT const EpPackage* ep_kernel_package(uint32_t host_abi_version);

#ifdef __cplusplus
}
#endif

#endif /* EPILOGUE_KERNEL_ABI_H_ */
