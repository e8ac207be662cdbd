"""A consumer of Minitill's feed: appends each event to a file, once, wherever it is killed (Python 3.8, Linux or macOS).

Try it: API_KEY=mtk_... python3 consumer.py http://127.0.0.1:8081 events.jsonl [APP_ID]
"""
import fcntl
import http.client
import json
import mmap
import os
import sys
import time
from urllib.parse import urlencode, urlsplit

WAIT_SECONDS, PAUSE_MAX_SECONDS = 30, 30
# The file has pages of the feed: a line for each event, then a line with the cursor. This is the first line.
START = b'{"next": null}\n'


def recover(file):
    """Cuts off what stands after the last whole page, and gives its cursor. The feed sends the rest again."""
    if not os.fstat(file.fileno()).st_size:
        file.write(START)
        file.flush()
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = text.rfind(b"\n")
        while end >= 0:
            begin = text.rfind(b"\n", 0, end) + 1
            if text[begin : begin + 7] == b'{"next"':
                file.truncate(end + 1)
                return json.loads(text[begin:end])["next"]
            end = begin - 1
        if not START.startswith(text[: len(START)]):
            sys.exit(f"{file.name} is no file of this program")
    file.truncate(0)
    return recover(file)


def append(file, events, cursor):
    """The cursor follows when the events are on the disk. So a cursor that is there tells that they are."""
    file.write(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    file.flush()
    os.fsync(file.fileno())
    file.write(json.dumps({"next": cursor}).encode() + b"\n")
    file.flush()


def page(base, key, query):
    """The events of a page and its cursor. Asks again until an answer comes; a refusal ends the program."""
    connect = http.client.HTTPSConnection if base.scheme == "https" else http.client.HTTPConnection
    pause = 1
    while True:
        connection, retry_after = connect(base.netloc, timeout=WAIT_SECONDS + 15), 0
        try:
            path = f"{base.path.rstrip('/')}/admin/v1/events?{urlencode(query)}"
            connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
            response = connection.getresponse()
            after = response.getheader("Retry-After", "")
            retry_after = int(after) if after.isdecimal() else 0
            read = json.loads(response.read())
            if response.status == 200:
                return read["items"], read["next"]
            why = f"HTTP status {response.status}: {read['detail']}"
            if response.status == 409:
                sys.exit(f"{why}. Move the file away, begin again, and compare with the ledger")
            if response.status < 500 and response.status != 429:
                sys.exit(why)
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError) as error:
            why = f"no answer: {error!r}"
        finally:
            connection.close()
        print(f"{why}; trying again", file=sys.stderr, flush=True)
        time.sleep(retry_after or pause)
        pause = min(2 * pause, PAUSE_MAX_SECONDS)


def main(base, path, app_id=None):
    with open(path, "a+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            sys.exit(f"{path}: another consumer writes it")
        cursor = recover(file)
        while True:
            query = {"wait": WAIT_SECONDS, "limit": 200, "after": cursor, "app_id": app_id}
            asked = {name: value for name, value in query.items() if value is not None}
            events, after = page(urlsplit(base), os.environ["API_KEY"], asked)
            # An empty page can have another cursor. It is kept too, so that it does not grow old.
            if after != cursor:
                append(file, events, after)
                cursor = after


if __name__ == "__main__":
    main(*sys.argv[1:])
