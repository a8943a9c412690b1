$ zooid cli get /app
z[rc 0]
