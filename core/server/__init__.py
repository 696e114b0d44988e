"""Speech over HTTP, as clients of the OpenAI API expect it. `create_app` in `app.py` is the whole of it."""
