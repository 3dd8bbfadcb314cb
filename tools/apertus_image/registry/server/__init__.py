"""A site's own registry: the real docker-registry program over one folder that lasts."""
