// XLA's part of a call of a handler: buffers, one attribute, a stream. Without a device nothing else
// of XLA can make such a call.
#include <xla/ffi/api/c_api.h>

#include <cstring>
#include <string>
#include <vector>

struct XLA_FFI_Error { std::string message; };
struct XLA_FFI_ExecutionContext { void* stream; };

namespace {

XLA_FFI_Error* make(XLA_FFI_Error_Create_Args* args) { return new XLA_FFI_Error{args->message}; }
void read(XLA_FFI_Error_GetMessage_Args* args) { args->message = args->error->message.c_str(); }
void destroy(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }
XLA_FFI_Error* stream_of(XLA_FFI_Stream_Get_Args* args)
{
    args->stream = args->ctx->stream;
    return nullptr;
}

XLA_FFI_ByteSpan span(const char* text) { return {text, std::strlen(text)}; }

}  // namespace

// Bytes of a message that is written to `said`; 0: all went well.
extern "C" int call(XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*), void* stream, int n_arguments,
                    int n_results, void** addresses, const char* key, char* said, int room)
{
    XLA_FFI_Api api{};
    api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
    api.api_version.struct_size = XLA_FFI_Api_Version_STRUCT_SIZE;
    api.api_version.major_version = XLA_FFI_API_MAJOR;
    api.api_version.minor_version = XLA_FFI_API_MINOR;
    api.XLA_FFI_Error_Create = make;
    api.XLA_FFI_Error_GetMessage = read;
    api.XLA_FFI_Error_Destroy = destroy;
    api.XLA_FFI_Stream_Get = stream_of;
    XLA_FFI_ExecutionContext context{stream};

    int64_t dims[] = {1};
    std::vector<XLA_FFI_Buffer> buffers(n_arguments + n_results);
    std::vector<void*> each;
    for (size_t i = 0; i < buffers.size(); ++i) {
        buffers[i] = {XLA_FFI_Buffer_STRUCT_SIZE, nullptr, XLA_FFI_DataType_U8, addresses[i], 1, dims};
        each.push_back(&buffers[i]);
    }
    std::vector<XLA_FFI_ArgType> arguments(n_arguments, XLA_FFI_ArgType_BUFFER);
    std::vector<XLA_FFI_RetType> results(n_results, XLA_FFI_RetType_BUFFER);
    XLA_FFI_ByteSpan name = span("key"), value = span(key);
    XLA_FFI_ByteSpan* names[] = {&name};
    void* values[] = {&value};
    XLA_FFI_AttrType type = XLA_FFI_AttrType_STRING;

    XLA_FFI_CallFrame frame{};
    frame.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    frame.api = &api, frame.ctx = &context, frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, n_arguments, arguments.data(), each.data()};
    frame.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, n_results, results.data(),
                  each.data() + n_arguments};
    frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, &type, names, values};
    XLA_FFI_Error* error = handler(&frame);
    if (!error) return 0;
    std::strncpy(said, error->message.c_str(), room - 1);
    delete error;
    return 1;
}
