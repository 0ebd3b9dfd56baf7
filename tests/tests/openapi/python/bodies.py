"""Bodies of requests that are accepted, from which the fuzz test makes others."""

from __future__ import annotations

from typing import Any


def bodies(ids: dict[str, str], workflow: dict[str, str], snapshot: Any) -> dict[str, list[Any]]:
    """Bodies that are accepted, by operation. `$kind` becomes an id, `$new` a new name."""
    user = {"user": "ann"}
    entry = {"id": "$new"}
    provider = {"kind": "openai_compatible", "base_url": "https://models.example.com/v1", "api_key": "k"}
    profile = {"name": "p", "provider": "acme", "model": "m"}
    node = {"callId": "API", "knownParams": {"url": "https://example.com", "method": "get"}}
    database = {"database_type": "postgresql", "host": "db.example.com", "username": "u", "database": "d"}
    call_entry = {
        "info": {"en": {"name": "Greet", "description": "Says hello"}},
        "streaming": True,
        "operations": ["init", "exec"],
        "transport": {"type": "http", "url": "https://calls.example.com/greet"},
    }
    text = {
        "name": "$new",
        "text": "The tide.\n\nIt comes.",
        "indexing_technique": "economy",
        "process_rule": {"mode": "automatic"},
    }
    return {
        "publish_app": [workflow, {**workflow, "id": ids["chat"]}],
        "submit_run": [
            {"app": ids["flow"], "inputs": {"text": "x"}, "user": "ann"},
            {**workflow, "inputs": {"name": "x"}, "user": "ann", "options": {"max_steps": 5}},
            {"app": ids["form"], "inputs": {"order": "1"}, "user": "ann", "durability": "memory"},
            {
                "app": ids["chat"],
                "inputs": {},
                "query": "hi",
                "conversation_id": "",
                "memory": [{"query": "a", "answer": "b"}],
            },
        ],
        "import_run": [snapshot, {**snapshot, "frames": {}}],
        "command_run": [
            {"command": "pause"},
            {"command": "resume"},
            {"command": "update_variables", "updates": {"start.text": 1}},
            {"command": "stop", "reason": "r"},
        ],
        "answer_pause": [
            {"action": "yes", "inputs": {"note": "fine"}},
            {"cancel": True},
            {"action": "no", "inputs": {"note": "n"}, "key": "$new"},
        ],
        "add_app_key": [{"label": "l"}, {"label": "l", "scopes": ["read"]}],
        "add_key": [{"scope": "datasets"}, {"app": ids["chat"], "label": "l"}],
        "add_admin_key": [{"label": "$new", "role": "read-only"}, {"label": "$new", "role": "operator"}],
        "rotate_key": [{}, {"overlap_seconds": 60}],
        "rotate_admin_key": [{}],
        "set_budget": [{"tokens": 1000}, {"price": "5 USD"}],
        "set_webhook": [
            {"url": "https://example.invalid/y"},
            {"url": "https://example.invalid/y", "events": ["failed"], "include": ["outputs"]},
        ],
        "retry_dead": [{"dry_run": True}, {"filter": {}, "limit": 5}],
        "raise_shards": [{"shards": 8}],
        "create_dataset": [
            {"id": "$new", "name": "$new"},
            {"id": "$new", "name": "$new", "indexing_technique": "economy"},
        ],
        "add_document": [{"name": "n", "text": "The mill."}, {"name": "n", "segments": [{"content": "c"}]}],
        "add_provider": [{**entry, **provider}],
        "put_provider": [provider],
        "add_profile": [{**entry, **profile}],
        "put_profile": [profile],
        "add_library_node": [{**entry, **node}],
        "put_library_node": [node],
        "add_call": [{**entry, **call_entry}],
        "put_call": [call_entry],
        "add_service": [{**entry, "server": "https://example.com"}],
        "put_service": [{"server": "https://example.com"}],
        "add_datasource": [{**entry, **database}],
        "put_datasource": [database],
        "send_message": [
            {**user, "query": "hi", "inputs": {}, "response_mode": "blocking"},
            {**user, "query": "hi", "inputs": {}, "response_mode": "streaming", "conversation_id": "$conversation"},
        ],
        "send_completion": [
            {**user, "inputs": {"query": "x"}, "response_mode": mode} for mode in ("blocking", "streaming")
        ],
        "run_workflow": [
            {**user, "inputs": {"text": "x"}, "response_mode": mode} for mode in ("blocking", "streaming")
        ],
        "run_workflow_version": [{**user, "inputs": {"text": "x"}, "response_mode": "blocking"}],
        "stop_message": [user],
        "stop_completion": [user],
        "stop_workflow_run": [user],
        "rate_message": [{**user, "rating": "like", "content": "c"}, {**user, "rating": None}],
        "remove_conversation": [user],
        "rename_conversation": [{**user, "name": "n"}, {**user, "auto_generate": True}],
        "set_conversation_variable": [{**user, "value": "blue"}],
        "speak": [{**user, "text": "hi", "voice": "alloy"}, {**user, "message_id": "$message", "voice": "alloy"}],
        "answer_form": [{**user, "inputs": {"note": "n"}, "action": "yes"}, {**user, "inputs": {}, "action": "no"}],
        "add_annotation": [{"question": "q", "answer": "a"}],
        "change_annotation": [{"question": "q2", "answer": "a2"}],
        "switch_annotation_reply": [
            {"score_threshold": 0.9, "embedding_provider_name": "openai", "embedding_model_name": "m"}
        ],
        "create_knowledge_base": [{"name": "$new", "indexing_technique": "economy"}, {"name": "$new"}],
        "change_knowledge_base": [
            {"description": "d"},
            {"name": "$new", "retrieval_model": {"search_method": "keyword_search", "top_k": 3}},
        ],
        "search_knowledge_base": [
            {"query": "mill"},
            {"query": "mill", "retrieval_model": {"top_k": 2, "score_threshold_enabled": True, "score_threshold": 0.1}},
        ],
        "test_search": [{"query": "tide"}],
        "create_tag": [{"name": "$new"}],
        "rename_tag": [{"name": "$new", "tag_id": "$tag"}],
        "remove_tag": [{"tag_id": "$tag"}],
        "bind_tags": [{"tag_ids": ["$tag"], "target_id": "$dataset"}],
        "unbind_tags": [{"tag_ids": ["$tag"], "target_id": "$dataset"}, {"tag_id": "$tag", "target_id": "$dataset"}],
        "create_metadata_field": [{"type": kind, "name": "$new"} for kind in ("string", "number", "time")],
        "rename_metadata_field": [{"name": "$new"}],
        "set_metadata": [
            {
                "operation_data": [
                    {
                        "document_id": "$document",
                        "metadata_list": [{"id": "$field", "name": "author", "value": "v"}],
                        "partial_update": True,
                    }
                ]
            }
        ],
        "add_text_document": [text],
        "add_text_document_old": [text],
        "replace_text": [{"name": "n", "text": "Again.", "process_rule": {"mode": "automatic"}}, {"name": "m"}],
        "replace_text_old": [{"name": "n"}],
        "set_document_status": [{"document_ids": ["$document"]}],
        "add_segments": [{"segments": [{"content": "c"}]}],
        "change_segment": [{"segment": {"content": "c", "enabled": True}}, {"segment": {"enabled": True}}],
        **{f"webhook_{method}": [{"a": 1}] for method in ("post", "put", "patch", "delete")},
    }
