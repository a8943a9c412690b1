"""Logs in at the server argv[1] by GSSAPI with kazoo, and prints who "auth" stands for in an ACL: "sasl: NAME".

The service is zookeeper; the ticket is that of the environment.
"""
import sys

# The module kerberos is Debian's; kazoo and pure-sasl are those of the virtual environment, which come first.
sys.path.append("/usr/lib/python3/dist-packages")

from kazoo.client import KazooClient
from kazoo.security import make_acl

client = KazooClient(hosts=sys.argv[1], sasl_options={"mechanism": "GSSAPI", "service": "zookeeper"})
client.start(timeout=30)
path = client.create("/kazoo", b"", acl=[make_acl("auth", "", all=True)], ephemeral=True)
for acl in client.get_acls(path)[0]:
    print("%s: %s" % (acl.id.scheme, acl.id.id))
client.stop()
