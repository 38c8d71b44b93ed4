"""The first hundred hits of many queries, beside another program that speaks as Elasticsearch does.

    python3 first_hits.py OURS THEIRS CORPUS

OURS and THEIRS are addresses such as 127.0.0.1:9200; the other program has one shard and no
replicas. CORPUS is a folder that `cavy live search corpus` wrote. Documents are sent to both, then
every request of every file but `broad.txt`, 200 of each, with 100 hits. Scores are compared place
by place. Hits are compared by groups of equal scores, because nobody says in which order those
come; the last group of a full page may be any part of its equals.
"""

import json
import sys
import urllib.request

KINDS, EACH, HITS, NEAR = ("rare", "middle", "frequent", "and", "or"), 200, 100, 1e-4
OURS, THEIRS, CORPUS = sys.argv[1:4]
FIELDS = {"title": "text", "section": "keyword", "number": "long", "body": "text"}


def ask(where, method, path, body, kind="application/json"):
    request = urllib.request.Request(f"http://{where}{path}", body.encode(), method=method)
    request.add_header("Content-Type", kind)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def send(where, settings):
    about = {"mappings": {"properties": {name: {"type": kind} for name, kind in FIELDS.items()}}}
    ask(where, "PUT", "/texts", json.dumps(about | settings))
    with open(f"{CORPUS}/documents.ndjson") as file:
        lines = file.readlines()
    for at in range(0, len(lines), 2_000):
        some = "".join(lines[at : at + 2_000])
        assert not ask(where, "POST", "/_bulk", some, "application/x-ndjson")["errors"]
    ask(where, "POST", "/texts/_refresh", "")


def groups(hits):
    """Ids by equal scores, the last group apart."""
    all_groups, last = [], None
    for hit in hits:
        score = hit["_score"]
        if last is None or abs(score - last) > NEAR * last:
            all_groups.append(set())
        all_groups[-1].add(hit["_id"])
        last = score
    return all_groups


def compare(ours, theirs):
    """How far scores are apart at most, and what differs; None if nothing does."""
    if ours["total"] != theirs["total"]:
        return 0.0, f"total {ours['total']} and {theirs['total']}"
    pairs = list(zip(ours["hits"], theirs["hits"], strict=True))
    off = max((abs(a["_score"] / b["_score"] - 1.0) for a, b in pairs), default=0.0)
    if off > NEAR:
        return off, f"scores {off:.2e} apart"
    mine, other = groups(ours["hits"]), groups(theirs["hits"])
    full = len(pairs) == HITS
    whole = slice(0, -1) if full else slice(None)
    if mine[whole] != other[whole]:
        return off, "other hits"
    return off, None


settings = {"settings": {"number_of_shards": 1, "number_of_replicas": 0}}
send(OURS, {})
send(THEIRS, settings)
count, same_order, hits, worst, faults = 0, 0, 0, 0.0, []
for kind in KINDS:
    with open(f"{CORPUS}/{kind}.txt") as file:
        requests = [line.split(" ", 2)[2] for line in file][:EACH]
    for request in requests:
        body = json.dumps(json.loads(request) | {"size": HITS, "track_total_hits": True})
        both = [ask(where, "POST", "/texts/_search", body)["hits"] for where in (OURS, THEIRS)]
        count, hits = count + 1, hits + len(both[1]["hits"])
        off, fault = compare(*both)
        worst = max(worst, off)
        ids = [[hit["_id"] for hit in one["hits"]] for one in both]
        same_order += ids[0] == ids[1]
        if fault:
            faults.append(f"{kind}: {request.strip()}: {fault}")
peer = ask(THEIRS, "GET", "/", "")["version"]
name = f"{peer.get('distribution', 'Elasticsearch')} {peer['number']}"
print(f"{count} queries, {hits} hits beside {name}: {len(faults)} differ, {same_order} in the very")
print(f"same order; scores are {worst:.1e} apart at most")
print("\n".join(faults[:20]))
sys.exit(bool(faults))
