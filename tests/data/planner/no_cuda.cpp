// CUDA's runtime without a GPU, for asking ggml-cuda what it would allocate: it answers like an
// H100, gives out addresses and holds nothing. Build 11434 of llama.cpp, CUDA 13.0 (nvcc):
//   cmake -G Ninja -S llama.cpp -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90-virtual \
//     -DBUILD_SHARED_LIBS=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF
//   ninja -C build llama
//   g++ -std=c++17 -c no_cuda.cpp measure.cpp -I… (llama.cpp's include, src, ggml/include; CUDA's)
// and a link of all objects with both, without cudart, cublas and libcuda, and with
// -Wl,--wrap=fread. Kernels are never called: of *.cu only ggml-cuda, fattn, fwht, lightning-indexer
// and topk-moe need to be compiled, if what is left gets empty symbols.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cublas_v2.h>
#include <sys/mman.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
static int cc() { static int v = getenv("CC") ? atoi(getenv("CC")) : 90; return v; }
static const size_t TOTAL = getenv("VRAM_GIB") ? atoll(getenv("VRAM_GIB")) << 30 : (size_t) 640 << 30;
static std::map<void *, size_t> held; static std::mutex lock; static size_t used;
static cudaError_t take(void ** p, size_t n) {
    *p = mmap(nullptr, n ? n : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*p == MAP_FAILED) return cudaErrorMemoryAllocation;
    std::lock_guard<std::mutex> g(lock); held[*p] = n ? n : 1; used += n; return cudaSuccess;
}
static cudaError_t give(void * p) {
    std::lock_guard<std::mutex> g(lock); auto it = held.find(p); if (it == held.end()) return cudaSuccess;
    munmap(p, it->second); used -= it->second; held.erase(it); return cudaSuccess;
}
static int device;
extern "C" {
cudaError_t cudaGetDeviceCount(int * n) { *n = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int * d) { *d = device; return cudaSuccess; }
cudaError_t cudaSetDevice(int d) { device = d; return cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp * p, int) {
    memset(p, 0, sizeof *p); snprintf(p->name, sizeof p->name, "no GPU, as of %d", cc());
    p->totalGlobalMem = TOTAL; p->major = cc() / 10; p->minor = cc() % 10; p->warpSize = 32; p->multiProcessorCount = 132;
    p->sharedMemPerBlock = 48 << 10; p->regsPerBlock = 65536; p->maxThreadsPerBlock = 1024; p->l2CacheSize = 50 << 20;
    p->sharedMemPerBlockOptin = cc() >= 90 && cc() < 120 ? 227 << 10 : cc() == 80 ? 163 << 10 : cc() > 80 ? 99 << 10 : 64 << 10;
    p->cooperativeLaunch = 1; p->unifiedAddressing = 1; p->concurrentKernels = 1; p->sharedMemPerMultiprocessor = 100 << 10; p->maxThreadsPerMultiProcessor = 2048;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int * v, cudaDeviceAttr, int) { *v = 1; return cudaSuccess; }
cudaError_t cudaDeviceGetPCIBusId(char * s, int n, int) { snprintf(s, n, "0000:01:00.0"); return cudaSuccess; }
cudaError_t cudaDeviceCanAccessPeer(int * v, int, int) { *v = 0; return cudaSuccess; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char * cudaGetErrorString(cudaError_t) { return "an error"; }
cudaError_t cudaMemGetInfo(size_t * f, size_t * t) { *t = TOTAL; *f = TOTAL - used; return cudaSuccess; }
cudaError_t cudaMalloc(void ** p, size_t n) { return take(p, n); }
cudaError_t cudaMallocManaged(void ** p, size_t n, unsigned) { return take(p, n); }
cudaError_t cudaMallocHost(void ** p, size_t n) { return take(p, n); }
cudaError_t cudaFree(void * p) { return give(p); }
cudaError_t cudaFreeHost(void * p) { return give(p); }
cudaError_t cudaHostRegister(void *, size_t, unsigned) { return cudaSuccess; }
cudaError_t cudaHostUnregister(void *) { return cudaSuccess; }
cudaError_t cudaMemcpy(void *, const void *, size_t, cudaMemcpyKind) { return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *, const void *, size_t, cudaMemcpyKind, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, cudaMemcpyKind, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemcpyPeerAsync(void *, int, const void *, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemset(void *, int, size_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void *, int, size_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t * s, unsigned) { *s = (cudaStream_t) malloc(8); return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t s) { free(s); return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t * e, unsigned) { *e = (cudaEvent_t) malloc(8); return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t e) { free(e); return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
void ** __cudaRegisterFatBinary(void *) { static void * h; return &h; }
void __cudaRegisterFatBinaryEnd(void **) {}
void __cudaUnregisterFatBinary(void **) {}
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, void *, void *, int *) {}
void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int) {}
char __cudaInitModule(void **) { return 1; }
CUresult cuDeviceGet(CUdevice * d, int i) { *d = i; return CUDA_SUCCESS; }
CUresult cuDeviceGetAttribute(int * v, CUdevice_attribute, CUdevice) { *v = 1; return CUDA_SUCCESS; }
CUresult cuMemGetAllocationGranularity(size_t * g, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) { *g = 2 << 20; return CUDA_SUCCESS; }
cublasStatus_t cublasCreate_v2(cublasHandle_t * h) { *h = (cublasHandle_t) malloc(8); return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasDestroy_v2(cublasHandle_t h) { free(h); return CUBLAS_STATUS_SUCCESS; }
}
// weights are holes of the files: they need not be read
extern "C" {
size_t __real_fread(void *, size_t, size_t, FILE *);
size_t __wrap_fread(void * p, size_t size, size_t n, FILE * f) {
    if (size * n <= 65536) return __real_fread(p, size, n, f);
    return fseeko(f, (off_t) (size * n), SEEK_CUR) ? 0 : n;
}
}
