/* A turn of a chat with a tool, from C: the model's template, its answer read as it streams.
 *   cc -std=c99 chat.c $(pkg-config --cflags --libs tessera) && ./a.out MODEL.gguf "What is the weather in
 * Oslo?"
 */
#include <stdio.h>
#include <string.h>
#include <tessera.h>

static const char kTools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": \"object\","
    " \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 20}}, \"required\": [\"city\"],"
    " \"additionalProperties\": false}}}]";

/* Text in quotes, as JSON has it. 0 where it does not fit. */
static int quote(const char* text, char* out, size_t capacity) {
    size_t n = 0;
    for (; *text; text++) {
        if (n + 8 > capacity) return 0;
        if ((unsigned char)*text < 0x20) {
            n += (size_t)sprintf(out + n, "\\u%04x", (unsigned)*text);
            continue;
        }
        if (*text == '"' || *text == '\\') out[n++] = '\\';
        out[n++] = *text;
    }
    out[n] = '\0';
    return 1;
}

/* Content goes to the output at once, a call when it is complete. */
static void print_pieces(tsr_parser* parser) {
    tsr_piece piece = TSR_INIT(tsr_piece);
    while (tsr_parser_next(parser, &piece, NULL) == TSR_OK && piece.kind != TSR_PIECE_NONE) {
        if (piece.kind == TSR_PIECE_CALL) printf("call: %s %s\n", piece.call.name, piece.call.arguments);
        if (piece.kind == TSR_PIECE_CONTENT) fwrite(piece.text, 1, piece.n_text, stdout);
    }
}

static void on_delta(void* user, const tsr_delta* delta) {
    if (tsr_parser_push(user, delta->text, delta->n_text, NULL) == TSR_OK) print_pieces(user);
}

/* The question as a prompt; a call of the tool, with arguments that its schema accepts, is the only answer.
 */
static tsr_status answer(const tsr_model* model, tsr_engine* engine, const char* messages, tsr_error* error) {
    tsr_dialogue dialogue = TSR_INIT(tsr_dialogue);
    tsr_tool_grammar_options form = TSR_INIT(tsr_tool_grammar_options);
    tsr_parser_options reading = TSR_INIT(tsr_parser_options);
    tsr_request_options asked = TSR_INIT(tsr_request_options);
    tsr_prompt_info info = TSR_INIT(tsr_prompt_info);
    tsr_chat_info chat_info = TSR_INIT(tsr_chat_info);
    tsr_chat* chat = NULL;
    tsr_prompt* prompt = NULL;
    tsr_grammar* grammar = NULL;
    tsr_parser* parser = NULL;
    tsr_request* request = NULL;
    tsr_status status = tsr_chat_create(model, NULL, &chat, error);
    dialogue.messages = messages;
    dialogue.tools = kTools;
    if (status == TSR_OK) status = tsr_chat_get_info(chat, &chat_info, error);
    if (status == TSR_OK) status = tsr_chat_render(chat, &dialogue, &prompt, error);
    if (status == TSR_OK) status = tsr_prompt_get_info(prompt, &info, error);
    form.prompt = prompt;
    form.required = 1;
    if (status == TSR_OK) status = tsr_grammar_create_tools(&form, &grammar, error);
    reading.prompt = prompt;
    if (status == TSR_OK) status = tsr_parser_create(&reading, &parser, error);
    asked.tokens = info.tokens;
    asked.n_tokens = info.n_tokens;
    asked.max_tokens = 100;
    asked.stop = &chat_info.stop;
    asked.n_stop = chat_info.stop ? 1 : 0;
    asked.flags = TSR_SHOW_SPECIAL_TEXT;
    asked.grammar = grammar;
    asked.on_delta = on_delta;
    asked.user = parser;
    if (status == TSR_OK) status = tsr_engine_submit(engine, &asked, &request, error);
    if (status == TSR_OK) {
        tsr_request_wait(request);
        status = tsr_parser_finish(parser, error);
        print_pieces(parser);
    }
    tsr_request_free(request);
    tsr_parser_free(parser);
    tsr_grammar_free(grammar);
    tsr_prompt_free(prompt);
    tsr_chat_free(chat);
    return status;
}

int main(int argc, char** argv) {
    tsr_engine_options options = TSR_INIT(tsr_engine_options);
    tsr_model* model = NULL;
    tsr_engine* engine = NULL;
    tsr_error error;
    char text[2048], messages[4096];
    tsr_status status;
    if (argc != 3 || !quote(argv[2], text, sizeof text)) {
        fprintf(stderr, "usage: %s MODEL.gguf TEXT\n", argv[0]);
        return 2;
    }
    sprintf(messages, "[{\"role\": \"user\", \"content\": \"%s\"}]", text);
    options.n_ctx = 2048;
    status = tsr_model_load(argv[1], NULL, &model, &error);
    if (status == TSR_OK) status = tsr_engine_create(model, &options, &engine, &error);
    if (status == TSR_OK) status = answer(model, engine, messages, &error);
    if (status != TSR_OK) fprintf(stderr, "%s: %s\n", tsr_status_name(status), error.message);
    tsr_engine_free(engine);
    tsr_model_free(model);
    return status != TSR_OK;
}
