#!/bin/sh
# Makes the stores beside it, which are checked in: keys and certificates of nobody, valid for 100 years, password
# "apassword". Needs openssl, and keytool and java of a JDK 17.
set -eu
cd "$(dirname "$0")"
rm -f ./*.jks ./*.p12 ./*.pem
days=36500
pass=apassword

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days $days -subj '/CN=Test CA' -keyout ca.key -out trust.pem
issue() { # issue NAME SUBJECT ALTNAMES
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -utf8 -subj "$2" -keyout "$1.key" -out "$1.csr"
	echo "subjectAltName=$3" >"$1.ext"
	openssl x509 -req -in "$1.csr" -CA trust.pem -CAkey ca.key -days $days -extfile "$1.ext" -out "$1.crt"
}
issue server /CN=localhost DNS:localhost,IP:127.0.0.1
issue client '/C=DE/O=Zoo, "Inc"/OU= a\+b/CN=client' IP:127.0.0.1
# Several values in one part, characters to escape, types that RFC 2253 has no name for.
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -utf8 -multivalue-rdn -keyout odd.key -out odd.csr \
	-subj '/C=DE/ST=é/L=#1/O= <;=> /DC=org+UID=u1/OU=\\ \"/serialNumber=7/emailAddress=a@b.c/CN=你好'
openssl x509 -req -in odd.csr -CA trust.pem -CAkey ca.key -days $days -out odd.pem

cat server.crt server.key trust.pem >server.pem
{ openssl pkcs8 -topk8 -v2 aes256 -in server.key -passout pass:$pass; cat server.crt; } >server-encrypted.pem
{ openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES -in server.key -passout pass:$pass; cat server.crt; } >server-old.pem
cat client.crt client.key >client.pem
openssl pkcs12 -export -in server.crt -inkey server.key -certfile trust.pem -name server -passout pass:$pass -out server.p12
openssl pkcs12 -export -in trust.pem -nokeys -passout pass:$pass -out untrusted.p12
import="keytool -importkeystore -noprompt -srckeystore server.p12 -srcstorepass $pass -deststorepass $pass"
$import -deststoretype JKS -destkeystore server.jks
$import -deststoretype PKCS12 -destkeystore server-keytool.p12
cp server-keytool.p12 really-pkcs12.jks
keytool -importcert -noprompt -alias 'The CA' -file trust.pem -storetype JKS -storepass $pass -keystore trust.jks
keytool -importcert -noprompt -alias ca -file trust.pem -storetype PKCS12 -storepass $pass -keystore trust.p12

cat >Subject.java <<'J'
import java.io.*;
import java.security.cert.*;

class Subject {
	public static void main(String[] files) throws Exception {
		for (String file : files)
			try (InputStream in = new FileInputStream(file)) {
				X509Certificate c = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
				System.out.println(file + " " + c.getSubjectX500Principal().getName());
			}
	}
}
J
java -Dfile.encoding=UTF-8 Subject.java client.pem odd.pem server.pem trust.pem >subjects.txt
rm -f Subject.java ./*.key ./*.csr ./*.crt ./*.ext ./*.srl
