// Metal's devices and buffers without macOS, for asking ggml-metal what it would allocate: they give
// out addresses and hold nothing, and files are not read. Build 11434 of llama.cpp, its libraries
// compiled for the CPU alone:
//   cmake -G Ninja -S llama.cpp -B build -DLLAMA_BUILD_COMMON=OFF
//   ninja -C build bin/libllama.so bin/libggml.so
// What Metal supports is what ggml-metal-device.m says, unchanged:
//   sed -n '/^static bool ggml_metal_supports_mul_mat_op/,/^const struct ggml_metal_device_props/p' \
//     ggml-metal-device.m | sed '$d' > supports_op.inc
//   g++ -std=c++17 -rdynamic -include memory -include vector -include cstring -I. \
//     -Illama.cpp/include -Illama.cpp/src -Illama.cpp/ggml/include -Illama.cpp/ggml/src \
//     -Illama.cpp/ggml/src/ggml-metal measure.cpp no_metal.cpp llama.cpp/ggml/src/ggml-metal/*.cpp \
//     -o measure -Lbuild/bin -lllama -lggml -lggml-base -ldl -Wl,-rpath,$PWD/build/bin
#include "ggml-impl.h"
#include "ggml-backend-impl.h"
#include "ggml-metal-impl.h"
#include "ggml-metal-common.h"
#include "ggml-metal-context.h"
#include "ggml-metal-device.h"
#include "ggml-metal-fusion.h"
#include "ggml-metal-ops.h"
#include "ggml-metal.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
static const size_t TOTAL = (size_t) 1 << 40;
struct ggml_metal_device { ggml_metal_device_props props; ggml_metal_fusion_info * fusions; };
struct ggml_metal { ggml_metal_device_t device; };
struct ggml_metal_buffer { void * data; size_t size; bool owned; };
extern "C" {
#include "supports_op.inc"
ggml_metal_device_t ggml_metal_device_init(int device, int) {
    auto * one = new ggml_metal_device{};
    auto & p = one->props;
    p.device = p.device_virt = device;
    snprintf(p.name, sizeof p.name, "MTL%d", device);
    snprintf(p.desc, sizeof p.desc, "Apple M4");
    p.has_simdgroup_reduction = p.has_simdgroup_mm = p.has_unified_memory = p.has_bfloat = p.use_shared_buffers = true;
    p.device_id = GGML_METAL_DEVICE_M4;  // an M5, which has_tensor, takes the same
    p.op_offload_min_batch_size = 32;
    p.max_buffer_size = p.max_working_set_size = TOTAL;
    p.max_theadgroup_memory_size = 32768;
    one->fusions = ggml_metal_fusion_info_init(true, 0);
    return one;
}
void ggml_metal_device_free(ggml_metal_device_t one) { delete one; }
void * ggml_metal_device_get_obj(ggml_metal_device_t) { return nullptr; }
void * ggml_metal_device_get_queue(ggml_metal_device_t) { return nullptr; }
ggml_metal_library_t ggml_metal_device_get_library(ggml_metal_device_t) { return nullptr; }
const ggml_metal_device_props * ggml_metal_device_get_props(ggml_metal_device_t one) { return &one->props; }
ggml_metal_fusion_info * ggml_metal_device_get_fusion_info(ggml_metal_device_t one) { return one->fusions; }
void ggml_metal_device_get_memory(ggml_metal_device_t, size_t * free, size_t * total) { *free = *total = TOTAL; }
ggml_metal_event_t ggml_metal_device_event_init(ggml_metal_device_t one) { return (ggml_metal_event_t) one; }
void ggml_metal_device_event_free(ggml_metal_device_t, ggml_metal_event_t) {}
void ggml_metal_device_event_synchronize(ggml_metal_device_t, ggml_metal_event_t) {}
ggml_metal_buffer_t ggml_metal_buffer_init(ggml_metal_device_t, size_t size, bool) {
    void * data = mmap(nullptr, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return data == MAP_FAILED ? nullptr : new ggml_metal_buffer{data, size ? size : 1, true};
}
ggml_metal_buffer_t ggml_metal_buffer_map(ggml_metal_device_t, void * data, size_t size, size_t) { return new ggml_metal_buffer{data, size, false}; }
void ggml_metal_buffer_free(ggml_metal_buffer_t b) { if (b->owned) munmap(b->data, b->size); delete b; }
void * ggml_metal_buffer_get_base(ggml_metal_buffer_t b) { return b->data; }
bool ggml_metal_buffer_is_shared(ggml_metal_buffer_t) { return true; }
void ggml_metal_buffer_memset_tensor(ggml_metal_buffer_t, ggml_tensor *, uint8_t, size_t, size_t) {}
void ggml_metal_buffer_set_tensor(ggml_metal_buffer_t, ggml_tensor *, const void *, size_t, size_t) {}
void ggml_metal_buffer_get_tensor(ggml_metal_buffer_t, const ggml_tensor *, void * data, size_t, size_t size) { memset(data, 0, size); }
bool ggml_metal_buffer_cpy_tensor(ggml_metal_buffer_t, const ggml_tensor *, ggml_tensor *) { return true; }
void ggml_metal_buffer_clear(ggml_metal_buffer_t, uint8_t) {}
ggml_metal_buffer_id ggml_metal_buffer_get_id(ggml_metal_buffer_t, const ggml_tensor *) { abort(); }
ggml_metal_t ggml_metal_init(ggml_metal_device_t device) { return new ggml_metal{device}; }
void ggml_metal_free(ggml_metal_t one) { delete one; }
const char * ggml_metal_get_name(ggml_metal_t one) { return one->device->props.name; }
void ggml_metal_synchronize(ggml_metal_t) {}
void ggml_metal_set_tensor_async(ggml_metal_t, ggml_tensor *, const void *, size_t, size_t) {}
void ggml_metal_get_tensor_async(ggml_metal_t, const ggml_tensor *, void *, size_t, size_t) {}
bool ggml_metal_cpy_tensor_async(ggml_metal_t, ggml_metal_t, const ggml_tensor *, ggml_tensor *) { return true; }
ggml_status ggml_metal_graph_compute(ggml_metal_t, ggml_cgraph *) { return GGML_STATUS_SUCCESS; }
void ggml_metal_graph_optimize(ggml_metal_t, ggml_cgraph * graph) { ggml_graph_optimize(graph); }
void ggml_metal_event_record(ggml_metal_t, ggml_metal_event_t) {}
void ggml_metal_event_wait(ggml_metal_t, ggml_metal_event_t) {}
ggml_metal_event_t ggml_metal_get_ev_cpy(ggml_metal_t) { return nullptr; }
void ggml_metal_set_n_cb(ggml_metal_t, int) {}
void ggml_metal_set_abort_callback(ggml_metal_t, ggml_abort_callback, void *) {}
bool ggml_metal_supports_family(ggml_metal_t, int) { return false; }
void ggml_metal_capture_next_compute(ggml_metal_t) {}
const char * ggml_metal_device_id_token(ggml_metal_device_id) { return ""; }
size_t fread(void * p, size_t size, size_t n, FILE * f) {
    static auto * real = (size_t (*)(void *, size_t, size_t, FILE *)) dlsym(RTLD_NEXT, "fread");
    if (size * n <= 65536) return real(p, size, n, f);
    return fseeko(f, (off_t) (size * n), SEEK_CUR) ? 0 : n;
}
}
// what is called while something is computed
#define NEVER(name) asm(".globl ggml_metal_" #name "\nggml_metal_" #name ": ud2");
NEVER(cv_free) NEVER(cv_init) NEVER(cv_set_bool) NEVER(cv_set_int16) NEVER(cv_set_int32) NEVER(encoder_init)
NEVER(encoder_debug_group_pop) NEVER(encoder_debug_group_push) NEVER(encoder_dispatch_threadgroups) NEVER(encoder_free)
NEVER(encoder_end_encoding) NEVER(encoder_memory_barrier) NEVER(encoder_set_buffer) NEVER(encoder_set_bytes)
NEVER(encoder_set_pipeline) NEVER(encoder_set_threadgroup_memory_size) NEVER(library_compile_pipeline) NEVER(pipeline_free)
NEVER(library_get_device) NEVER(library_get_pipeline) NEVER(pipeline_max_theads_per_threadgroup)
static const bool registered = [] { ggml_backend_register(ggml_backend_metal_reg()); return true; }();
