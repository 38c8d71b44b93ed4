"""Foreign clients, unmodified: elasticsearch-py or opensearch-py against a front end.

    python tests/clients.py elasticsearch http://127.0.0.1:9200
"""

import sys

which, url = sys.argv[1], sys.argv[2]
if which == "elasticsearch":
    from elasticsearch import ConflictError, Elasticsearch, NotFoundError, helpers

    client = Elasticsearch(url)
else:
    from opensearchpy import ConflictError, NotFoundError, OpenSearch, helpers

    client = OpenSearch(url)

body = (lambda **rest: rest) if which == "elasticsearch" else (lambda **rest: {"body": rest})
index = f"{which}-books"
assert client.ping() and client.info()["version"]["number"]

if client.indices.exists(index=index):
    client.indices.delete(index=index)
properties = {"title": {"type": "text"}, "year": {"type": "integer"}, "tag": {"type": "keyword"}}
client.indices.create(index=index, **body(mappings={"properties": properties}))
assert client.indices.exists(index=index)

lines = [
    {"_index": index, "_id": str(n), "title": f"book {n} of the ring", "year": 1990 + n % 30,
     "tag": "even" if n % 2 == 0 else "odd"}
    for n in range(500)
]
done, errors = helpers.bulk(client, lines, refresh=True)
assert (done, errors) == (500, []), (done, errors)
assert client.count(index=index)["count"] == 500

found = client.search(index=index, **body(
    query={"bool": {"must": [{"match": {"title": "ring"}}],
                    "filter": [{"term": {"tag": "odd"}}, {"range": {"year": {"gte": 2010}}}]}},
    aggs={"years": {"terms": {"field": "year", "size": 3, "order": {"_key": "asc"}}}},
    sort=[{"year": "asc"}, {"_id": "desc"}], size=7))
expected = [n for n in range(500) if n % 2 == 1 and 1990 + n % 30 >= 2010]
assert found["hits"]["total"] == {"value": len(expected), "relation": "eq"}, found["hits"]["total"]
years = [hit["_source"]["year"] for hit in found["hits"]["hits"]]
assert years == sorted(1990 + n % 30 for n in expected)[:7], years
buckets = found["aggregations"]["years"]["buckets"]
assert [bucket["key"] for bucket in buckets] == [2011, 2013, 2015], buckets

after = client.search(index=index, **body(
    query={"match_all": {}}, sort=[{"year": "asc"}, {"_id": "desc"}], size=7,
    search_after=[1990, "0"]))
assert after["hits"]["hits"][0]["_source"]["year"] == 1991

client.index(index=index, id="new", **({"document": {"title": "x"}} if which == "elasticsearch"
                                       else {"body": {"title": "x"}}), refresh="wait_for")
got = client.get(index=index, id="new")
assert got["_version"] == 1 and got["_source"] == {"title": "x"}
client.update(index=index, id="new", **body(doc={"year": 2024}), refresh=True)
assert client.get(index=index, id="new")["_source"] == {"title": "x", "year": 2024}
try:
    client.create(index=index, id="new", **({"document": {}} if which == "elasticsearch"
                                            else {"body": {}}))
    raise AssertionError("a document was created twice")
except ConflictError as error:
    assert error.status_code == 409 if hasattr(error, "status_code") else True
client.delete(index=index, id="new", refresh=True)
try:
    client.get(index=index, id="new")
    raise AssertionError("a deleted document is there")
except NotFoundError:
    pass

ids = {hit["_id"] for hit in helpers.scan(client, index=index, size=60)}
assert len(ids) == 500, len(ids)
docs = client.mget(index=index, **body(ids=["1", "nowhere"]))["docs"]
assert [doc["found"] for doc in docs] == [True, False]

client.indices.put_settings(index=index, **({"settings": {"index.roar.p": 2}}
                                            if which == "elasticsearch"
                                            else {"body": {"index.roar.p": 2}}))
assert client.cluster.health(wait_for_status="green")["status"] == "green"
assert client.count(index=index)["count"] == 500
client.indices.delete(index=index)
try:
    client.search(index=index)
    raise AssertionError("a deleted index is searched")
except NotFoundError as error:
    assert "index_not_found_exception" in str(error)
print(f"{which}: all is as it should be")
